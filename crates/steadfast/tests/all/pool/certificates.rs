//! Certificates that a test makes for itself, and the files that hold them.

use std::path::PathBuf;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ServerConfig, SupportedProtocolVersion};
use steadfast::client::{TlsFiles, UpstreamTls};

/// Somebody who signs certificates.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    own: CertificateDer<'static>,
    folder: tempfile::TempDir,
}

/// A certificate and its key.
pub struct Identity {
    certificate: CertificateDer<'static>,
    key: KeyPair,
}

impl Authority {
    pub fn new() -> Authority {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // Two authorities are not mistaken for each other by their names.
        let name = STANDARD.encode(&key.public_key_raw()[..16]);
        params.distinguished_name.push(DnType::CommonName, name);
        let own = params.self_signed(&key).expect("a certificate");
        let authority = Authority {
            own: own.der().clone(),
            issuer: Issuer::new(params, key),
            folder: tempfile::tempdir().expect("a folder"),
        };
        authority.write("ca.pem", &pem("CERTIFICATE", &authority.own));
        authority
    }

    /// A certificate for `name`, valid today.
    pub fn signs(&self, name: &str) -> Identity {
        self.signs_as(name, |_| {})
    }

    /// A certificate for `name` that ended long ago.
    pub fn signs_expired(&self, name: &str) -> Identity {
        self.signs_as(name, |params| params.not_after = date_time_ymd(2001, 1, 1))
    }

    fn signs_as(&self, name: &str, change: impl Fn(&mut CertificateParams)) -> Identity {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        change(&mut params);
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        Identity {
            certificate: certificate.der().clone(),
            key,
        }
    }

    /// Writes a file into a folder that goes with this.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path
    }

    /// The files of a client that trusts this authority.
    pub fn files(&self) -> TlsFiles {
        TlsFiles {
            ca: Some(self.folder.path().join("ca.pem")),
            ..TlsFiles::default()
        }
    }

    /// The files of a client that trusts this authority and shows `own`.
    pub fn files_of(&self, own: &Identity) -> TlsFiles {
        let key = pem("PRIVATE KEY", &own.key.serialize_der());
        TlsFiles {
            client_cert: Some(self.write("own.pem", &pem("CERTIFICATE", &own.certificate))),
            client_key: Some(self.write("own.key", &key)),
            ..self.files()
        }
    }

    /// A client that trusts this authority.
    pub fn trusted(&self) -> UpstreamTls {
        UpstreamTls::new(&self.files()).unwrap_or_else(|e| panic!("{e}"))
    }

    /// A server that shows `own` and takes clients of this authority alone.
    pub fn asks_for_certificates(
        &self,
        own: &Identity,
        version: &'static SupportedProtocolVersion,
    ) -> ServerConfig {
        let mut roots = RootCertStore::empty();
        roots.add(self.own.clone()).expect("a root");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider);
        let verifier = verifier.build().expect("a verifier");
        let builder = builder(&[version]).with_client_cert_verifier(verifier);
        let (chain, key) = own.parts();
        builder.with_single_cert(chain, key).expect("its own key")
    }
}

impl Identity {
    /// One that nobody signed but itself.
    pub fn self_signed(name: &str) -> Identity {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        let certificate = params.self_signed(&key).expect("a certificate");
        Identity {
            certificate: certificate.der().clone(),
            key,
        }
    }

    fn parts(&self) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let key = PrivateKeyDer::try_from(self.key.serialize_der()).expect("a key");
        (vec![self.certificate.clone()], key)
    }

    /// A server that shows this.
    pub fn server(&self) -> ServerConfig {
        self.server_of(&[&rustls::version::TLS13, &rustls::version::TLS12])
    }

    /// The same, with these versions alone.
    pub fn server_of(&self, versions: &[&'static SupportedProtocolVersion]) -> ServerConfig {
        let (chain, key) = self.parts();
        let builder = builder(versions).with_no_client_auth();
        builder.with_single_cert(chain, key).expect("its own key")
    }
}

fn builder(
    versions: &[&'static SupportedProtocolVersion],
) -> rustls::ConfigBuilder<ServerConfig, rustls::WantsVerifier> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider);
    builder.with_protocol_versions(versions).expect("versions")
}

/// `bytes` as a block of PEM (RFC 7468).
pub fn pem(label: &str, bytes: &[u8]) -> String {
    let text = STANDARD.encode(bytes);
    let lines = text.as_bytes().chunks(64).map(String::from_utf8_lossy);
    let lines = lines.collect::<Vec<_>>().join("\n");
    format!("-----BEGIN {label}-----\n{lines}\n-----END {label}-----\n")
}
