//! Certificates for tests: authorities, and what they sign.
#![allow(clippy::unwrap_used)]

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    SanType,
};

/// A certificate authority.
pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(super) pem: String,
}

/// A certificate with its key, both as PEM.
#[derive(Clone)]
pub(super) struct Signed {
    pub(super) certificate: String,
    pub(super) key: String,
}

impl Authority {
    pub(super) fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self {
            issuer: Issuer::new(params, key),
            pem,
        }
    }

    fn sign(&self, names: Vec<SanType>, usage: ExtendedKeyUsagePurpose) -> Signed {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.subject_alt_names = names;
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate().unwrap();
        Signed {
            certificate: params.signed_by(&key, &self.issuer).unwrap().pem(),
            key: key.serialize_pem(),
        }
    }

    /// For a server that is asked as `localhost`.
    pub(super) fn server(&self) -> Signed {
        let name = SanType::DnsName("localhost".try_into().unwrap());
        self.sign(vec![name], ExtendedKeyUsagePurpose::ServerAuth)
    }

    pub(super) fn client(&self, names: Vec<SanType>) -> Signed {
        self.sign(names, ExtendedKeyUsagePurpose::ClientAuth)
    }
}
