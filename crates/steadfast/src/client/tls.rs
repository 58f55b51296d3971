//! Whom an upstream must prove to be, and who we say we are to it.
//!
//! Decides what is trusted: the system's certificates, as every other program on the machine does
//! (`SSL_CERT_FILE` and `SSL_CERT_DIR` take their place), and those of one further file. There is
//! no switch that turns verification off. The provider of cryptography is named here and nowhere
//! installed, so that no two parts of a process can disagree about it.

use std::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{AlertDescription, ClientConfig, RootCertStore};

/// Where certificates and a key are kept, in PEM. Nothing of it is needed for a public upstream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// Certificates that are trusted beside the system's.
    pub ca: Option<PathBuf>,
    /// Our own certificate, followed by those between it and its root.
    pub client_cert: Option<PathBuf>,
    /// The key of our own certificate.
    pub client_key: Option<PathBuf>,
}

/// How upstreams are spoken to over TLS 1.2 and 1.3. Made once; clones share it.
#[derive(Clone)]
pub struct UpstreamTls {
    config: Arc<ClientConfig>,
}

impl UpstreamTls {
    /// Reads the system's certificates and `files`.
    ///
    /// # Errors
    /// [`TlsError`] where a file cannot be read or is not what it should be, where a certificate
    /// comes without its key, and where nothing would be trusted.
    pub fn new(files: &TlsFiles) -> Result<UpstreamTls, TlsError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider has suites of both versions")
            .with_root_certificates(roots(files.ca.as_deref())?);
        let mut config = match (&files.client_cert, &files.client_key) {
            (None, None) => builder.with_no_client_auth(),
            (Some(cert), Some(key)) => {
                let (chain, secret) = (certificates(cert, TlsPart::ClientCert)?, read_key(key)?);
                let own = builder.with_client_auth_cert(chain, secret);
                own.map_err(|error| unfit_key(cert, key, &error))?
            }
            (Some(_), None) => return Err(alone(TlsPart::ClientCert, "key")),
            (None, Some(_)) => return Err(alone(TlsPart::ClientKey, "certificate")),
        };
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(UpstreamTls {
            config: Arc::new(config),
        })
    }

    pub(super) fn config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.config)
    }
}

impl fmt::Debug for UpstreamTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpstreamTls").finish_non_exhaustive()
    }
}

/// Whether `error` says that a side is not who it should be, rather than that the handshake was
/// cut: our judgement of the peer's certificate, or the peer's of ours (RFC 8446, 6.2).
pub(super) fn refuses_identity(error: &rustls::Error) -> bool {
    match error {
        rustls::Error::InvalidCertificate(_)
        | rustls::Error::InvalidCertRevocationList(_)
        | rustls::Error::NoCertificatesPresented => true,
        rustls::Error::AlertReceived(alert) => matches!(
            alert,
            AlertDescription::NoCertificate
                | AlertDescription::BadCertificate
                | AlertDescription::UnsupportedCertificate
                | AlertDescription::CertificateRevoked
                | AlertDescription::CertificateExpired
                | AlertDescription::CertificateUnknown
                | AlertDescription::UnknownCA
                | AlertDescription::AccessDenied
                | AlertDescription::CertificateUnobtainable
                | AlertDescription::UnrecognisedName
                | AlertDescription::BadCertificateStatusResponse
                | AlertDescription::BadCertificateHashValue
                | AlertDescription::CertificateRequired
        ),
        _ => false,
    }
}

fn roots(ca: Option<&Path>) -> Result<RootCertStore, TlsError> {
    let system = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Stores of systems hold certificates that no current program takes; they are no fault of ours.
    roots.add_parsable_certificates(system.certs);
    if let Some(file) = ca {
        for certificate in certificates(file, TlsPart::Ca)? {
            roots.add(certificate).map_err(|error| TlsError {
                part: TlsPart::Ca,
                reason: format!(
                    "`{}` has a certificate that is none: {error}",
                    file.display()
                ),
                next: "name a file of certificates in PEM",
            })?;
        }
    }
    if roots.is_empty() {
        let why = system.errors.first().map(|error| format!(": {error}"));
        return Err(TlsError {
            part: TlsPart::Roots,
            reason: format!(
                "the system has no trusted certificates{}",
                why.unwrap_or_default()
            ),
            next: "install them (Debian: ca-certificates), or name a file with SSL_CERT_FILE",
        });
    }
    Ok(roots)
}

fn certificates(file: &Path, part: TlsPart) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found = read.map_err(|error| unreadable(file, part, "certificate", &error))?;
    if found.is_empty() {
        return Err(unreadable(
            file,
            part,
            "certificate",
            &pem::Error::NoItemsFound,
        ));
    }
    Ok(found)
}

fn read_key(file: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_file(file)
        .map_err(|error| unreadable(file, TlsPart::ClientKey, "private key", &error))
}

/// What is wrong with a file; never what stands in it.
fn unreadable(file: &Path, part: TlsPart, what: &str, error: &pem::Error) -> TlsError {
    let file = file.display();
    let (reason, next) = match error {
        pem::Error::Io(error) => (
            format!("`{file}` cannot be read: {error}"),
            "correct the path or its permissions",
        ),
        pem::Error::NoItemsFound => (
            format!("`{file}` has no {what} in PEM"),
            "name a file that has a line `-----BEGIN …-----`",
        ),
        _ => (
            format!("`{file}` is no PEM"),
            "name a file in PEM that is whole",
        ),
    };
    TlsError { part, reason, next }
}

fn unfit_key(cert: &Path, key: &Path, error: &rustls::Error) -> TlsError {
    let (cert, key) = (cert.display(), key.display());
    TlsError {
        part: TlsPart::ClientKey,
        reason: match error {
            rustls::Error::InconsistentKeys(_) => {
                format!("the key in `{key}` is not that of the certificate in `{cert}`")
            }
            _ => format!("the key in `{key}` cannot be used with `{cert}`: {error}"),
        },
        next: "name a certificate and its own key",
    }
}

fn alone(part: TlsPart, other: &str) -> TlsError {
    TlsError {
        part,
        reason: format!("the client's {other} is missing"),
        next: "name both, or neither",
    }
}

/// Which part cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsPart {
    /// The system's certificates.
    Roots,
    /// [`TlsFiles::ca`].
    Ca,
    /// [`TlsFiles::client_cert`].
    ClientCert,
    /// [`TlsFiles::client_key`].
    ClientKey,
}

/// TLS cannot be set up so. Nothing was sent to anybody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsError {
    /// Which part.
    pub part: TlsPart,
    /// What is wrong, with the file's name.
    pub reason: String,
    /// What to do.
    pub next: &'static str,
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.reason, self.next)
    }
}

impl Error for TlsError {}
