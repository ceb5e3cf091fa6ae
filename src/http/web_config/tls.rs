//! The TLS side of a server, as the file describes it.

use super::client_certificate::{Certificates, ClientAuth};
use super::error::WebConfigError;
use super::file::{Text, Tls};
use super::source::{Named, Source};
use rustls::crypto::{CryptoProvider, SupportedKxGroup, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig, SupportedCipherSuite, SupportedProtocolVersion};
use std::fmt;
use std::sync::Arc;

/// What is served, and what is asked of clients.
pub(super) struct TlsSide {
    pub(super) config: Arc<ServerConfig>,
    /// Whether a client without a certificate is refused.
    pub(super) requires_certificate: bool,
    /// Whether certificates that are given are verified.
    pub(super) verifies_certificate: bool,
}

impl fmt::Debug for TlsSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsSide")
            .field("requires_certificate", &self.requires_certificate)
            .field("verifies_certificate", &self.verifies_certificate)
            .finish_non_exhaustive()
    }
}

/// Builds it from the section and from what the section names.
pub(super) fn build(tls: &Tls, source: &Source) -> Result<TlsSide, WebConfigError> {
    let provider = Arc::new(provider(tls, source)?);
    let (auth, verifier) = client_auth(tls, source, &provider)?;
    let failed = |error| source.tls(tls, error);
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&versions(tls, source)?)
        .map_err(failed)?;
    let builder = match verifier {
        Some(verifier) => builder.with_client_cert_verifier(verifier),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder
        .with_single_cert(certificates(source)?, key(source)?)
        .map_err(failed)?;
    config.ignore_client_order = tls.prefer_server_cipher_suites.unwrap_or(true);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // Scrapers keep their connections. Sessions to resume would take memory, and live on after a CA that was taken away.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(TlsSide {
        config: Arc::new(config),
        requires_certificate: auth.requires(),
        verifies_certificate: auth.verifies(),
    })
}

fn certificates(source: &Source) -> Result<Vec<CertificateDer<'static>>, WebConfigError> {
    let wanted = || "the certificate is missing; name its file in cert_file".to_owned();
    let named = (source.certificate.as_ref())
        .ok_or_else(|| source.value(None, "tls_server_config.cert_file", wanted()))?;
    pem_certificates(named, source)
}

fn pem_certificates(
    named: &Named,
    source: &Source,
) -> Result<Vec<CertificateDer<'static>>, WebConfigError> {
    let found = CertificateDer::pem_slice_iter(&named.content).collect::<Result<Vec<_>, _>>();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        _ => Err(source.value(
            Some(named.location),
            named.field,
            format!("{} holds no certificate in PEM form", named.origin()),
        )),
    }
}

fn key(source: &Source) -> Result<PrivateKeyDer<'static>, WebConfigError> {
    let wanted = || "the private key is missing; name its file in key_file".to_owned();
    let named = (source.key.as_ref())
        .ok_or_else(|| source.value(None, "tls_server_config.key_file", wanted()))?;
    // The parser's own error would show lines of the file.
    PrivateKeyDer::from_pem_slice(&named.content).map_err(|_| {
        source.value(
            Some(named.location),
            named.field,
            format!(
                "{} holds no private key in PEM form without a passphrase",
                named.origin()
            ),
        )
    })
}

type Verifier = Arc<dyn rustls::server::danger::ClientCertVerifier>;

fn client_auth(
    tls: &Tls,
    source: &Source,
    provider: &Arc<CryptoProvider>,
) -> Result<(ClientAuth, Option<Verifier>), WebConfigError> {
    const FIELD: &str = "tls_server_config.client_auth_type";
    let at = tls.client_auth_type.as_ref().map(|text| text.referenced);
    let refuse = |problem: &str| source.value(at, FIELD, problem.to_owned());
    let auth = match &tls.client_auth_type {
        None => ClientAuth::None,
        Some(text) => ClientAuth::parse(&text.value).ok_or_else(|| {
            let problem = format!("`{}` is not one of {}", text.value, ClientAuth::NAMES);
            refuse(&problem)
        })?,
    };
    if source.client_ca.is_some() && auth == ClientAuth::None {
        return Err(refuse(
            "there is a client CA, but no certificate is asked for; write RequireAndVerifyClientCert",
        ));
    }
    if let Some(sans) = &tls.client_allowed_sans
        && !auth.requires()
    {
        return Err(source.value(
            Some(sans.referenced),
            "tls_server_config.client_allowed_sans",
            "a client without a certificate would be let in; write client_auth_type: RequireAndVerifyClientCert"
                .to_owned(),
        ));
    }
    if auth == ClientAuth::None {
        return Ok((auth, None));
    }
    let chain = match &source.client_ca {
        Some(ca) if auth.verifies() => Some(chain(ca, source, provider)?),
        None if auth.verifies() => {
            return Err(refuse("who signs the certificates? name client_ca_file"));
        }
        _ => None,
    };
    let verifier = Certificates {
        mandatory: auth.requires(),
        chain,
        allowed: (tls.client_allowed_sans.as_ref()).map(|sans| sans.value.clone()),
        algorithms: provider.signature_verification_algorithms,
    };
    Ok((auth, Some(Arc::new(verifier))))
}

fn chain(
    ca: &Named,
    source: &Source,
    provider: &Arc<CryptoProvider>,
) -> Result<Verifier, WebConfigError> {
    let bad = |problem: String| source.value(Some(ca.location), ca.field, problem);
    let mut roots = RootCertStore::empty();
    for certificate in pem_certificates(ca, source)? {
        roots
            .add(certificate)
            .map_err(|error| bad(format!("{} cannot be trusted: {error}", ca.origin())))?;
    }
    let built =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider)).build();
    built.map_err(|error| bad(format!("{} cannot be trusted: {error}", ca.origin())))
}

fn versions(
    tls: &Tls,
    source: &Source,
) -> Result<Vec<&'static SupportedProtocolVersion>, WebConfigError> {
    let read = |text: &Option<Text>, field, by_default| match text {
        None => Ok(by_default),
        Some(text) => match text.value.as_str() {
            "TLS12" => Ok(12),
            "TLS13" => Ok(13),
            "TLS10" | "TLS11" => Err(source.value(
                Some(text.referenced),
                field,
                format!(
                    "{} is broken and not served; write TLS12 or TLS13",
                    text.value
                ),
            )),
            other => Err(source.value(
                Some(text.referenced),
                field,
                format!("`{other}` is not one of TLS12, TLS13"),
            )),
        },
    };
    let least = read(&tls.min_version, "tls_server_config.min_version", 12)?;
    let most = read(&tls.max_version, "tls_server_config.max_version", 13)?;
    let served: Vec<_> = [(13, &TLS13), (12, &TLS12)]
        .into_iter()
        .filter(|(version, _)| (least..=most).contains(version))
        .map(|(_, version)| version)
        .collect();
    if served.is_empty() {
        let at = tls.max_version.as_ref().map(|text| text.referenced);
        let problem = "it is below min_version".to_owned();
        return Err(source.value(at, "tls_server_config.max_version", problem));
    }
    Ok(served)
}

/// With the suites and curves that the file names, in its order.
fn provider(tls: &Tls, source: &Source) -> Result<CryptoProvider, WebConfigError> {
    let mut provider = ring::default_provider();
    if let Some(named) = tls.cipher_suites.as_ref().filter(|named| !named.is_empty()) {
        // As in Go, the list is about TLS 1.2: the suites of TLS 1.3 are always offered.
        let (always, choice): (Vec<_>, Vec<_>) = (provider.cipher_suites.into_iter())
            .partition(|suite| matches!(suite, SupportedCipherSuite::Tls13(_)));
        let pick = |name: &Text| {
            let found = (choice.iter().chain(&always))
                .find(|suite| suite_name(suite) == name.value)
                .copied();
            found.ok_or_else(|| {
                let known: Vec<_> = choice.iter().map(suite_name).collect();
                let problem = format!("`{}` is not one of {}", name.value, known.join(", "));
                let field = "tls_server_config.cipher_suites";
                source.value(Some(name.referenced), field, problem)
            })
        };
        let mut suites = always.clone();
        for name in named {
            let suite = pick(name)?;
            if !suites.contains(&suite) {
                suites.push(suite);
            }
        }
        provider.cipher_suites = suites;
    }
    if let Some(named) = (tls.curve_preferences.as_ref()).filter(|named| !named.is_empty()) {
        provider.kx_groups = named
            .iter()
            .map(|name| curve(name, source))
            .collect::<Result<_, _>>()?;
    }
    Ok(provider)
}

/// As Go names it: the suites of TLS 1.3 are `TLS_…` there and `TLS13_…` here.
fn suite_name(suite: &SupportedCipherSuite) -> String {
    let name = format!("{:?}", suite.suite());
    name.replacen("TLS13_", "TLS_", 1)
}

fn curve(name: &Text, source: &Source) -> Result<&'static dyn SupportedKxGroup, WebConfigError> {
    match name.value.as_str() {
        "X25519" => Ok(ring::kx_group::X25519),
        "CurveP256" => Ok(ring::kx_group::SECP256R1),
        "CurveP384" => Ok(ring::kx_group::SECP384R1),
        other => Err(source.value(
            Some(name.referenced),
            "tls_server_config.curve_preferences",
            format!("`{other}` is not one of X25519, CurveP256, CurveP384"),
        )),
    }
}
