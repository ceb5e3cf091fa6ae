//! The file and the files that it names, as they are at one moment.

use super::error::WebConfigError;
use super::file::{File, Tls};
use crate::yaml::Place;
use serde_saphyr::{Location, Spanned};
use sha2::{Digest, Sha256};
use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// A certificate bundle of a whole distribution has a third of that.
const LARGEST: u64 = 1024 * 1024;

/// A certificate or key, from a file or from the configuration itself.
pub(super) struct Named {
    pub(super) field: &'static str,
    pub(super) location: Location,
    /// The file, if it is in one.
    path: Option<PathBuf>,
    pub(super) content: Vec<u8>,
}

impl Named {
    /// Where the content comes from, for people.
    pub(super) fn origin(&self) -> String {
        match &self.path {
            Some(path) => path.display().to_string(),
            None => "the text".to_owned(),
        }
    }
}

impl fmt::Debug for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Named")
            .field("field", &self.field)
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

/// What was read.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) path: PathBuf,
    pub(super) file: File,
    pub(super) certificate: Option<Named>,
    pub(super) key: Option<Named>,
    pub(super) client_ca: Option<Named>,
    /// Differs if anything that was read does.
    pub(super) fingerprint: [u8; 32],
}

impl Source {
    /// Reads everything.
    pub(super) fn read(path: &Path) -> Result<Self, WebConfigError> {
        let failed = |source| WebConfigError::Read {
            path: path.to_owned(),
            source,
        };
        let bytes = content(path).map_err(failed)?;
        let text = std::str::from_utf8(&bytes)
            .map_err(|error| failed(io::Error::new(io::ErrorKind::InvalidData, error)))?;
        let mut source = Self {
            path: path.to_owned(),
            file: File::parse(path, text)?,
            certificate: None,
            key: None,
            client_ca: None,
            fingerprint: [0; 32],
        };
        if let Some(tls) = &source.file.tls_server_config {
            let named = source.named(tls)?;
            [source.certificate, source.key, source.client_ca] = named;
        }
        let mut hash = Sha256::new();
        let named = [&source.certificate, &source.key, &source.client_ca];
        let contents = named
            .into_iter()
            .flatten()
            .map(|named| named.content.as_slice());
        for content in std::iter::once(bytes.as_slice()).chain(contents) {
            hash.update(content.len().to_le_bytes());
            hash.update(content);
        }
        source.fingerprint = hash.finalize().into();
        Ok(source)
    }

    fn named(&self, tls: &Tls) -> Result<[Option<Named>; 3], WebConfigError> {
        Ok([
            self.one(
                ("tls_server_config.cert_file", tls.cert_file.as_ref()),
                ("tls_server_config.cert", text(tls.cert.as_ref())),
            )?,
            self.one(
                ("tls_server_config.key_file", tls.key_file.as_ref()),
                (
                    "tls_server_config.key",
                    (tls.key.as_ref()).map(|key| (key.value.0.as_str(), key.referenced)),
                ),
            )?,
            self.one(
                (
                    "tls_server_config.client_ca_file",
                    tls.client_ca_file.as_ref(),
                ),
                ("tls_server_config.client_ca", text(tls.client_ca.as_ref())),
            )?,
        ])
    }

    /// The content of the one of two fields that is set.
    fn one(
        &self,
        (file_field, file): (&'static str, Option<&Spanned<String>>),
        (field, inline): (&'static str, Option<(&str, Location)>),
    ) -> Result<Option<Named>, WebConfigError> {
        let file = file.filter(|file| !file.value.is_empty());
        let inline = inline.filter(|(text, _)| !text.is_empty());
        match (file, inline) {
            (None, None) => Ok(None),
            (Some(_), Some((_, location))) => Err(self.value(
                Some(location),
                field,
                format!("{file_field} is set as well; one of them is enough"),
            )),
            (None, Some((text, location))) => Ok(Some(Named {
                field,
                location,
                path: None,
                content: text.as_bytes().to_vec(),
            })),
            (Some(file), None) => {
                // Relative to the configuration, wherever the process was started.
                let folder = self.path.parent().unwrap_or(Path::new(""));
                let path = folder.join(&file.value);
                let content = content(&path).map_err(|source| WebConfigError::Named {
                    place: Place::new(&self.path, Some(file.referenced)),
                    field: file_field,
                    path: path.clone(),
                    source,
                })?;
                Ok(Some(Named {
                    field: file_field,
                    location: file.referenced,
                    path: Some(path),
                    content,
                }))
            }
        }
    }

    /// A field whose value cannot be honoured.
    pub(super) fn value(
        &self,
        location: Option<Location>,
        field: &'static str,
        problem: String,
    ) -> WebConfigError {
        WebConfigError::Value {
            place: Place::new(&self.path, location),
            field,
            problem,
        }
    }

    /// What rustls refuses, which is mostly a key that does not belong to the certificate.
    pub(super) fn tls(&self, tls: &Tls, source: rustls::Error) -> WebConfigError {
        let key = tls.key_file.as_ref().map(|text| text.referenced);
        let key = key.or(tls.key.as_ref().map(|text| text.referenced));
        WebConfigError::Tls {
            place: Place::new(&self.path, key),
            source,
        }
    }
}

fn text(text: Option<&Spanned<String>>) -> Option<(&str, Location)> {
    text.map(|text| (text.value.as_str(), text.referenced))
}

fn content(path: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    let file = fs::File::open(path)?;
    file.take(LARGEST + 1).read_to_end(&mut content)?;
    if content.len() as u64 > LARGEST {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            "it has more than 1 MiB",
        ));
    }
    Ok(content)
}
