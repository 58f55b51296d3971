//! Which of a name's addresses is spoken to: the first that takes a connection.
//!
//! Decides the order (families in turn) and when the next address is tried: after
//! [`NEXT_ADDRESS_AFTER`], or at once when one fails (RFC 8305, "Happy Eyeballs Version 2").
//! Whoever did not win is closed.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use steadfast_core::deadline::Deadline;
use tokio::net::TcpStream;

use super::dial::share;
use crate::clock::{self, Elapsed};

/// After so long without a connection the next address of a name is tried as well (RFC 8305,
/// section 8: the recommended Connection Attempt Delay).
pub const NEXT_ADDRESS_AFTER: Duration = Duration::from_millis(250);

/// A connected socket and where it leads. Each address has `limit`, all of them end with `ends`.
///
/// Dropping the future closes whatever it had begun.
///
/// # Errors
/// What happened with each address, in the order in which they ended.
pub(super) async fn race(
    addresses: Vec<SocketAddr>,
    limit: Duration,
    ends: Deadline,
) -> Result<(TcpStream, SocketAddr), String> {
    let mut next = in_turn(addresses).into_iter();
    let mut trying = FuturesUnordered::new();
    let mut told = Vec::new();
    loop {
        let share = share(limit, ends);
        let started = if share.is_zero() { None } else { next.next() };
        if let Some(address) = started {
            trying.push(one(address, share));
        } else if trying.is_empty() {
            break;
        }
        let ended = match started {
            Some(_) if next.len() > 0 => clock::within(NEXT_ADDRESS_AFTER, trying.next()).await,
            _ => Ok(trying.next().await),
        };
        match ended {
            Ok(Some(Ok(connected))) => return Ok(connected),
            Ok(Some(Err(why))) => told.push(why),
            Ok(None) | Err(Elapsed) => {}
        }
    }
    if told.is_empty() {
        told.push("no time was left to connect".to_owned());
    }
    Err(told.join(", "))
}

async fn one(address: SocketAddr, limit: Duration) -> Result<(TcpStream, SocketAddr), String> {
    let connected = async {
        let tcp = TcpStream::connect(address).await?;
        // A request is written in one piece, so waiting to fill a segment only delays it.
        tcp.set_nodelay(true)?;
        Ok::<_, io::Error>(tcp)
    };
    match clock::within(limit, connected).await {
        Ok(Ok(tcp)) => Ok((tcp, address)),
        Ok(Err(error)) => Err(format!("{address} took no connection ({error})")),
        Err(Elapsed) => Err(format!("no connection to {address} within {limit:?}")),
    }
}

/// The families in turn, beginning with the one that the resolver prefers (RFC 8305, section 4).
/// Within a family the resolver's order stays.
fn in_turn(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let Some(first) = addresses.first() else {
        return addresses;
    };
    let v6_first = first.is_ipv6();
    let (preferred, others): (Vec<_>, Vec<_>) = addresses
        .into_iter()
        .partition(|address| address.is_ipv6() == v6_first);
    let mut ordered = Vec::with_capacity(preferred.len() + others.len());
    let (mut preferred, mut others) = (preferred.into_iter(), others.into_iter());
    loop {
        let pair = (preferred.next(), others.next());
        ordered.extend(pair.0);
        ordered.extend(pair.1);
        if pair == (None, None) {
            return ordered;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::net::Ipv4Addr;

    use socket2::{Domain, SockAddr, Socket, Type};
    use tokio::net::TcpListener;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn in_time() -> Deadline {
        Deadline::after(clock::mono_now(), LONG)
    }

    fn loopback(last: u8) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::new(127, 0, 0, last), 0))
    }

    /// A listener whose queue is full: a connection is neither taken nor refused.
    fn hole() -> (SocketAddr, Vec<Socket>) {
        let socket = || Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        let listener = socket();
        listener.bind(&SockAddr::from(loopback(1))).expect("a port");
        listener.listen(0).expect("listening");
        let address = listener.local_addr().expect("an address");
        let mut held = vec![listener];
        for _ in 0..8 {
            let one = socket();
            one.set_nonblocking(true).expect("a socket");
            let _ = one.connect(&address);
            held.push(one);
        }
        (address.as_socket().expect("an address"), held)
    }

    async fn refusing() -> SocketAddr {
        let listener = TcpListener::bind(loopback(1)).await.expect("a port");
        listener.local_addr().expect("an address")
    }

    /// The local ports of sockets that are still to be connected to `address`, those held by the
    /// test aside. The kernel's table is no snapshot: while other tests open and close sockets it
    /// may name one twice, so that counts of it are worth nothing.
    fn left_over(address: SocketAddr, held: &[Socket]) -> BTreeSet<u16> {
        let table = std::fs::read_to_string("/proc/net/tcp").expect("Linux");
        let to = format!("0100007F:{:04X}", address.port());
        let connecting = table.lines().filter_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let [_, local, remote, "02", ..] = fields[..] else {
                return None;
            };
            let (_, port) = local.split_once(':')?;
            (remote == to).then(|| u16::from_str_radix(port, 16).expect("a port"))
        });
        let held = held.iter().filter_map(|socket| {
            let local = socket.local_addr().expect("an address");
            Some(local.as_socket()?.port())
        });
        let held: BTreeSet<u16> = held.collect();
        connecting.filter(|port| !held.contains(port)).collect()
    }

    #[test]
    fn families_are_tried_in_turn_beginning_with_the_preferred() {
        let read = |list: &[&str]| -> Vec<SocketAddr> {
            list.iter()
                .map(|a| a.parse().expect("an address"))
                .collect()
        };
        let (v6, v4) = (["[::1]:1", "[::2]:1", "[::3]:1"], ["1.1.1.1:1"]);
        assert_eq!(
            in_turn(read(&[v6[0], v6[1], v6[2], v4[0]])),
            read(&[v6[0], v4[0], v6[1], v6[2]])
        );
        assert_eq!(in_turn(read(&[v4[0], v6[0]])), read(&[v4[0], v6[0]]));
        assert_eq!(in_turn(Vec::new()), Vec::new());
    }

    // rule: happy-eyeballs
    #[tokio::test]
    async fn an_address_that_does_not_answer_delays_the_next_but_does_not_keep_it_back() {
        let (dead, held) = hole();
        let live = TcpListener::bind(loopback(2)).await.expect("a port");
        let live_at = live.local_addr().expect("an address");
        let won = race(vec![dead, live_at], LONG, in_time()).await;
        assert_eq!(won.expect("a connection").1, live_at);
        assert_eq!(left_over(dead, &held), [].into(), "the loser was closed");
    }

    #[tokio::test]
    async fn an_address_that_fails_lets_the_next_begin_at_once() {
        let live = TcpListener::bind(loopback(2)).await.expect("a port");
        let live_at = live.local_addr().expect("an address");
        let mut addresses = vec![refusing().await; 400];
        addresses.push(live_at);
        // With a delay each they would take longer than they have.
        let within = Deadline::after(clock::mono_now(), NEXT_ADDRESS_AFTER * 300);
        let won = race(addresses, LONG, within).await;
        assert_eq!(won.expect("a connection").1, live_at);
    }

    #[tokio::test]
    async fn every_address_is_told_of_when_none_takes_a_connection() {
        let (dead, _held) = hole();
        let refuses = refusing().await;
        let soon = Duration::from_millis(50);
        let told = race(vec![dead, refuses], soon, in_time()).await;
        let told = told.expect_err("nobody listens");
        assert!(
            told.contains(&format!("{refuses} took no connection")),
            "{told}"
        );
        assert!(
            told.contains(&format!("no connection to {dead} within 50ms")),
            "{told}"
        );
    }

    #[tokio::test]
    async fn a_race_that_is_dropped_leaves_no_socket() {
        let (dead, held) = hole();
        for _ in 0..10 {
            let race = race(vec![dead, dead], LONG, in_time());
            assert!(
                clock::within(NEXT_ADDRESS_AFTER + NEXT_ADDRESS_AFTER / 5, race)
                    .await
                    .is_err()
            );
        }
        assert_eq!(left_over(dead, &held), [].into());
    }
}
