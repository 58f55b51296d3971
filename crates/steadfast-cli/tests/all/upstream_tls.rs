//! An upstream over TLS, from outside: what is trusted, and what a person is told.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::stage::{Folder, Gateway, Request};

/// A service over TLS, and the certificate that vouches for it, as the file `ca.pem`.
pub fn service(folder: &Folder) -> SocketAddr {
    let config = vouched(folder);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || serve(&listener, &Arc::new(config)));
    address
}

/// TLS for `localhost`, and the certificate that vouches for it, as the file `ca.pem`.
pub fn vouched(folder: &Folder) -> ServerConfig {
    let authority_key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let root = params.self_signed(&authority_key).expect("a certificate");
    let authority = Issuer::new(params, authority_key);
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
    let own = params.signed_by(&key, &authority).expect("a certificate");
    folder.write("ca.pem", pem(root.der()));
    let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![own.der().clone()], key)
        .expect("its own key")
}

fn serve(listener: &TcpListener, config: &Arc<ServerConfig>) {
    for tcp in listener.incoming().flatten() {
        let connection = ServerConnection::new(Arc::clone(config)).expect("a connection");
        let mut stream = StreamOwned::new(connection, tcp);
        // A caller may open another one while it keeps the first.
        std::thread::spawn(move || {
            let (mut seen, mut chunk) = (Vec::new(), [0; 4096]);
            while let Ok(read @ 1..) = stream.read(&mut chunk) {
                seen.extend_from_slice(&chunk[..read]);
                if seen.ends_with(b"\r\n\r\n") {
                    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
                    seen.clear();
                }
            }
        });
    }
}

fn pem(bytes: &[u8]) -> String {
    use base64::Engine as _;
    let text = base64::engine::general_purpose::STANDARD.encode(bytes);
    format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")
}

const LISTEN: &str = "listen = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\nstore = \"memory:\"\n";

pub fn configuration(top: &str, service: SocketAddr) -> String {
    let to = format!("https://localhost:{}", service.port());
    format!("{LISTEN}{top}[[route]]\npath = \"/{{*rest}}\"\nto = \"{to}\"\n")
}

fn ok(gateway: &Gateway) {
    for _ in 0..3 {
        let answer = gateway.ask(&Request::get("/orders")).expect("an answer");
        assert_eq!((answer.status, &*answer.body), (200, &b"ok"[..]));
    }
}

#[test]
fn an_https_upstream_is_reached_by_the_ca_of_the_configuration() {
    let folder = Folder::new();
    let service = service(&folder);
    let top = "upstream_tls = { ca = \"ca.pem\" }\n";
    folder.write("s.toml", configuration(top, service));
    ok(&folder.gateway());
}

#[test]
fn the_variable_ssl_cert_file_stands_for_the_system_s_certificates() {
    let folder = Folder::new();
    let service = service(&folder);
    folder.write("s.toml", configuration("", service));
    let mut command = folder.program(&["gateway", "--config", "s.toml"]);
    command.env("SSL_CERT_FILE", folder.path("ca.pem"));
    ok(&Gateway::start(command).unwrap_or_else(|died| panic!("{died:?}")));
}

#[test]
fn an_upstream_that_nobody_vouches_for_gets_nothing_and_its_caller_is_told_so() {
    let (folder, other) = (Folder::new(), Folder::new());
    let address = service(&folder);
    service(&other);
    let ca = other.path("ca.pem");
    let top = format!("upstream_tls = {{ ca = {ca:?} }}\n");
    folder.write("s.toml", configuration(&top, address));
    let answer = folder.gateway().ask(&Request::get("/orders"));
    let answer = answer.expect("an answer");
    let told = String::from_utf8(answer.body.clone()).expect("text");
    assert_eq!(answer.status, 503, "{told}");
    assert!(told.contains("upstream-unreachable"), "{told}");
    assert!(told.contains("\"effect\":\"none\""), "{told}");
}

#[test]
fn files_of_upstream_tls_are_judged_before_the_start_at_their_line() {
    let folder = Folder::new();
    folder.write("empty.pem", "nothing\n");
    let route = "[[route]]\npath = \"/\"\nto = \"http://h\"\n";
    for (top, told) in [
        (
            "[upstream_tls]\nca = \"gone.pem\"\n",
            "s.toml:2: error: upstream_tls.ca: `gone.pem` cannot be read: No such file or \
             directory (os error 2); correct the path or its permissions.\n",
        ),
        (
            "[upstream_tls]\nca = \"empty.pem\"\n",
            "s.toml:2: error: upstream_tls.ca: `empty.pem` has no certificate in PEM; name a \
             file that has a line `-----BEGIN …-----`.\n",
        ),
        (
            "[upstream_tls]\nclient_cert = \"\"\n",
            "s.toml:2: error: upstream_tls.client_cert: a path has 1 to 4096 characters, and no \
             zero; write the path of a file.\n",
        ),
    ] {
        folder.write("s.toml", format!("{top}{route}"));
        let ran = folder.run(&["config", "check", "--config", "s.toml"]);
        assert_eq!((ran.code, &*ran.err), (3, told), "{ran:?}");
    }
}
