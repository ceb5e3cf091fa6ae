//! The form of the file, which is that of the Prometheus exporter-toolkit.

use super::error::WebConfigError;
use crate::yaml::{self, Place};
use serde::{Deserialize, Deserializer};
use serde_saphyr::Spanned;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// Everything that the file may hold.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) tls_server_config: Option<Tls>,
    pub(super) http_server_config: Option<Http>,
    pub(super) basic_auth_users: Option<BTreeMap<String, Spanned<Secret>>>,
}

/// Text with its place.
pub(super) type Text = Spanned<String>;

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Tls {
    pub(super) cert: Option<Text>,
    pub(super) key: Option<Spanned<Secret>>,
    pub(super) client_ca: Option<Text>,
    pub(super) cert_file: Option<Text>,
    pub(super) key_file: Option<Text>,
    pub(super) client_ca_file: Option<Text>,
    pub(super) client_auth_type: Option<Text>,
    pub(super) client_allowed_sans: Option<Spanned<Vec<String>>>,
    pub(super) min_version: Option<Text>,
    pub(super) max_version: Option<Text>,
    pub(super) cipher_suites: Option<Vec<Text>>,
    pub(super) prefer_server_cipher_suites: Option<bool>,
    pub(super) curve_preferences: Option<Vec<Text>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Http {
    /// Permits HTTP/2, which nobody has to speak: this server does not, and every client falls back.
    #[serde(rename = "http2")]
    _http2: Option<bool>,
    pub(super) headers: Option<Headers>,
}

/// The headers that the toolkit lets be set.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Headers {
    #[serde(rename = "Content-Security-Policy")]
    pub(super) content_security_policy: Option<Text>,
    #[serde(rename = "X-Frame-Options")]
    pub(super) x_frame_options: Option<Text>,
    #[serde(rename = "X-Content-Type-Options")]
    pub(super) x_content_type_options: Option<Text>,
    #[serde(rename = "X-XSS-Protection")]
    pub(super) x_xss_protection: Option<Text>,
    #[serde(rename = "Strict-Transport-Security")]
    pub(super) strict_transport_security: Option<Text>,
}

/// Text that is never shown: a password's hash or a private key.
#[derive(Clone, Default, PartialEq)]
pub(super) struct Secret(pub(super) String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<secret>")
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self)
    }
}

impl Tls {
    /// Whether it asks for nothing, which to the toolkit is no TLS.
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl File {
    /// Reads the text of the file at a path.
    pub(super) fn parse(path: &Path, text: &str) -> Result<Self, WebConfigError> {
        // Nothing, or comments alone, is a file that asks for nothing.
        match serde_saphyr::from_str::<Option<Self>>(text) {
            Ok(file) => Ok(file.unwrap_or_default()),
            Err(error) => Err(WebConfigError::Syntax {
                place: Place::new(path, error.location()),
                // The parser's own words may hold a value, and that a secret.
                problem: yaml::mistake(&error)
                    .unwrap_or_else(|| "this is not YAML of the expected form".to_owned()),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn refused(text: &str) -> String {
        let error = File::parse(Path::new("web.yml"), text).unwrap_err();
        let told = error.to_string();
        assert!(!told.contains("hunter2"), "{told}");
        assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
        told
    }

    #[test]
    fn a_mistake_is_told_with_its_field_and_place() {
        for (text, expected) in [
            (
                "tls_server_config:\n  cert_fil: a.pem\n",
                "web.yml:2:3: unknown key `cert_fil`; known here are cert, key",
            ),
            (
                "rate_limit:\n  burst: 3\n",
                "web.yml:1:1: unknown key `rate_limit`; known here are tls_server_config, http_server_config, \
                 basic_auth_users",
            ),
            (
                "http_server_config:\n  headers:\n    X-Other: a\n",
                "web.yml:3:5: unknown key `X-Other`",
            ),
            (
                "http_server_config: {http2: perhaps}\n",
                "web.yml:1:29: expected",
            ),
            (
                "tls_server_config: {cert_file: a, cert_file: b}\n",
                "`cert_file` is there twice",
            ),
            (
                "tls_server_config: [\n",
                "web.yml:1:20: expected mapping start",
            ),
        ] {
            let told = refused(text);
            assert!(told.contains(expected), "{told}");
        }
    }

    #[test]
    fn a_mistake_tells_no_secret() {
        for text in [
            "basic_auth_users: hunter2\n",
            "basic_auth_users: [hunter2]\n",
            "basic_auth_users:\n  alice: [hunter2]\n",
            "basic_auth_users:\n  alice: {hunter2: hunter2}\n",
            "basic_auth_users:\n  alice: 'hunter2\n",
            "basic_auth_users:\n  alice: hunter2\n  alice: hunter2\n",
            "tls_server_config:\n  key: [hunter2]\n",
            "tls_server_config: hunter2\n",
            "hunter2\n",
            "- hunter2\n",
        ] {
            assert!(refused(text).starts_with("web.yml:"), "{text}");
        }
        let file = File::parse(Path::new("a"), "basic_auth_users: {alice: hunter2}\n").unwrap();
        assert!(!format!("{file:?}").contains("hunter2"));
    }

    #[test]
    fn what_asks_for_nothing_is_read() {
        for text in [
            "",
            "# nothing\n",
            "{}\n",
            "tls_server_config:\n",
            "basic_auth_users:\n",
        ] {
            let file = File::parse(Path::new("a"), text).unwrap();
            assert!(file.tls_server_config.is_none() && file.basic_auth_users.is_none());
        }
    }
}
