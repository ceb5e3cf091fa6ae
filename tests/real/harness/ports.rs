//! Free ports on the loopback interface.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Mutex, PoisonError};

/// Ports given out by this process, so that two servers that have not bound
/// theirs yet never get the same one.
static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// An address on 127.0.0.1 that was free a moment ago and is given out once.
pub(crate) fn free_address() -> SocketAddr {
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .and_then(|listener| listener.local_addr())
            .expect("the loopback interface has a free port");
        if given.insert(address.port()) {
            return address;
        }
    }
}
