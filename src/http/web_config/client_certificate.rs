//! Which client certificates are asked for, and which are accepted.

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use std::net::IpAddr;
use std::sync::Arc;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

/// What Go's TLS package names `ClientAuthType`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClientAuth {
    None,
    Request,
    RequireAny,
    VerifyIfGiven,
    RequireAndVerify,
}

impl ClientAuth {
    pub(super) const NAMES: &str = "NoClientCert, RequestClientCert, RequireAnyClientCert, \
                                    VerifyClientCertIfGiven, RequireAndVerifyClientCert";

    pub(super) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "" | "NoClientCert" => Self::None,
            "RequestClientCert" => Self::Request,
            // The second is an older name of the toolkit's.
            "RequireAnyClientCert" | "RequireClientCert" => Self::RequireAny,
            "VerifyClientCertIfGiven" => Self::VerifyIfGiven,
            "RequireAndVerifyClientCert" => Self::RequireAndVerify,
            _ => return None,
        })
    }

    pub(super) fn verifies(self) -> bool {
        matches!(self, Self::VerifyIfGiven | Self::RequireAndVerify)
    }

    pub(super) fn requires(self) -> bool {
        matches!(self, Self::RequireAny | Self::RequireAndVerify)
    }
}

/// Accepts certificates as the configuration says.
#[derive(Debug)]
pub(super) struct Certificates {
    pub(super) mandatory: bool,
    /// Verifies the chain; without, any certificate will do whose key the client holds.
    pub(super) chain: Option<Arc<dyn ClientCertVerifier>>,
    /// Alternative names of which the certificate must have one; without, any name will do.
    pub(super) allowed: Option<Vec<String>>,
    pub(super) algorithms: WebPkiSupportedAlgorithms,
}

impl ClientCertVerifier for Certificates {
    fn client_auth_mandatory(&self) -> bool {
        self.mandatory
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.chain
            .as_ref()
            .map_or(&[], |chain| chain.root_hint_subjects())
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        if let Some(chain) = &self.chain {
            chain.verify_client_cert(end_entity, intermediates, now)?;
        }
        if let Some(allowed) = &self.allowed
            && !names(end_entity)?.iter().any(|name| allowed.contains(name))
        {
            return Err(CertificateError::ApplicationVerificationFailure.into());
        }
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// The alternative names of a certificate: DNS, e-mail, IP and URI, as text.
fn names(certificate: &CertificateDer<'_>) -> Result<Vec<String>, Error> {
    let bad = || Error::from(CertificateError::BadEncoding);
    let (_, certificate) = X509Certificate::from_der(certificate).map_err(|_| bad())?;
    let Some(names) = certificate.subject_alternative_name().map_err(|_| bad())? else {
        return Ok(Vec::new());
    };
    let names = names.value.general_names.iter();
    Ok(names
        .filter_map(|name| match name {
            GeneralName::DNSName(name) | GeneralName::RFC822Name(name) | GeneralName::URI(name) => {
                Some((*name).to_owned())
            }
            GeneralName::IPAddress(octets) => address(octets).map(|address| address.to_string()),
            _ => None,
        })
        .collect())
}

fn address(octets: &[u8]) -> Option<IpAddr> {
    let four = <[u8; 4]>::try_from(octets).map(IpAddr::from);
    let sixteen = || <[u8; 16]>::try_from(octets).map(IpAddr::from);
    four.or_else(|_| sixteen()).ok()
}
