//! What a run needs before it begins: keys that are stored already, and free ports.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

use crate::{Failure, on_all_cores, rows};

/// Who sends at once.
const CALLERS: usize = 64;

/// Bytes of the body; the load that is measured sends the same.
const BODY_BYTES: usize = 200;

/// Sends one keyed POST for each key.
pub fn prime(to: SocketAddr, keys: &Path) -> Result<(), Failure> {
    let text = std::fs::read_to_string(keys)?;
    let keys: Arc<Vec<String>> = Arc::new(text.lines().map(str::to_owned).collect());
    on_all_cores(async {
        let client: Client<HttpConnector, Full<Bytes>> =
            Client::builder(TokioExecutor::new()).build_http();
        let next = Arc::new(AtomicUsize::new(0));
        let sending: Vec<_> = (0..CALLERS)
            .map(|_| {
                let (client, keys, next) = (client.clone(), Arc::clone(&keys), Arc::clone(&next));
                tokio::spawn(async move {
                    while let Some(key) = keys.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let request = Request::post(format!("http://{to}/orders"))
                            .header("content-type", "application/json")
                            .header("idempotency-key", key)
                            .body(Full::new(Bytes::from(rows::json_body(BODY_BYTES))))?;
                        let answer = client.request(request).await?;
                        let status = answer.status();
                        answer.into_body().collect().await?;
                        if status != StatusCode::CREATED {
                            return Err(format!("a first request was answered {status}").into());
                        }
                    }
                    Ok::<_, Failure>(())
                })
            })
            .collect();
        for caller in sending {
            caller.await??;
        }
        Ok(())
    })
}

/// Ports of a run: below those that the kernel gives to outgoing connections, so that no client on
/// the machine takes one between now and the moment it is bound.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// Writes `count` ports that are free now, on one line.
pub fn ports(count: usize) -> Result<(), Failure> {
    let mut random = rows::Random::new();
    let mut held = Vec::new();
    for _ in 0..count * 100 {
        let span = u64::from(PORTS.end - PORTS.start);
        let port = PORTS.start + u16::try_from(random.bits() % span)?;
        held.extend(TcpListener::bind(("127.0.0.1", port)));
        if held.len() == count {
            let ports: Result<Vec<_>, _> = held.iter().map(TcpListener::local_addr).collect();
            let ports: Vec<_> = ports?.iter().map(|at| at.port().to_string()).collect();
            println!("{}", ports.join(" "));
            return Ok(());
        }
    }
    Err("not enough free ports of loopback".into())
}
