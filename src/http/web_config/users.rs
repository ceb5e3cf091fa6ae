//! Basic authentication against bcrypt hashes.
//!
//! bcrypt is slow on purpose. So it runs on a thread of its own and once at a time, and what it found is remembered: not the
//! password but a keyed digest of it, one for each user and a few of those that were refused. How long a refusal takes does
//! not tell whether the user exists. Who waits for it waits in a short queue, in which each address has few places.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bcrypt::HashParts;
use hyper::header::{AUTHORIZATION, HeaderMap};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::net::IpAddr;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use subtle::ConstantTimeEq;
use tokio::sync::Semaphore;

/// A guess at this cost takes several seconds; at a higher one an answer would not be in time.
pub(super) const HIGHEST_COST: u32 = 16;
/// How many refused passwords are remembered. Wrong credentials of a scraper come with every scrape.
const REFUSED: usize = 32;
/// How many guesses may wait or be worked on, all together.
const QUEUE: usize = 32;
/// And how many of them from one address: whoever guesses keeps out nobody elsewhere.
const QUEUE_OF_ONE: usize = 2;
/// The salt of work that is done for its duration alone.
const SALT: [u8; 16] = *b"no password here";

type Fingerprint = [u8; 32];

/// Who may ask.
pub(super) struct Users {
    hashes: BTreeMap<String, Hash>,
    /// The highest of the costs, at which every guess is worked at.
    cost: u32,
    /// Of the digests below. Chosen anew for each process and each reading of the file.
    key: [u8; 32],
    known: Mutex<Known>,
    /// One at a time: it must not take the processors away from what this node is for.
    working: Arc<Semaphore>,
    /// How many guesses of an address wait or are worked on.
    queue: Arc<Mutex<BTreeMap<IpAddr, usize>>>,
}

/// Whether somebody may ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http) enum Admission {
    /// The request is one of a user's.
    Admitted,
    /// It is not.
    Refused,
    /// That cannot be said now: too many others wait for it.
    TooMany,
}

impl From<bool> for Admission {
    fn from(admitted: bool) -> Self {
        if admitted {
            Self::Admitted
        } else {
            Self::Refused
        }
    }
}

/// A place in the queue, until it is dropped.
struct Place {
    queue: Arc<Mutex<BTreeMap<IpAddr, usize>>>,
    from: IpAddr,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        match queue.get_mut(&self.from) {
            Some(places) if *places > 1 => *places -= 1,
            _ => {
                queue.remove(&self.from);
            }
        }
    }
}

#[derive(Clone)]
struct Hash {
    text: String,
    cost: u32,
}

/// What bcrypt said.
#[derive(Default)]
struct Known {
    accepted: BTreeMap<String, Fingerprint>,
    refused: VecDeque<Fingerprint>,
}

impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Users")
            .field("count", &self.hashes.len())
            .finish_non_exhaustive()
    }
}

/// Why a hash cannot be used. It is not shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BadHash {
    NotBcrypt,
    Cost(u32),
}

impl fmt::Display for BadHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotBcrypt => {
                f.write_str("this is no bcrypt hash; `htpasswd -nBC 10 USER` makes one")
            }
            Self::Cost(cost) => write!(f, "the cost is {cost}; it may be from 4 to {HIGHEST_COST}"),
        }
    }
}

impl Users {
    /// Nobody, so that everybody may ask.
    pub(super) fn none() -> Self {
        Self {
            hashes: BTreeMap::new(),
            cost: 0,
            key: [0; 32],
            known: Mutex::default(),
            working: Arc::new(Semaphore::new(1)),
            queue: Arc::default(),
        }
    }

    /// With a key for the digests.
    pub(super) fn with_key(key: [u8; 32]) -> Self {
        Self {
            key,
            ..Self::none()
        }
    }

    /// Adds a user with a hash.
    pub(super) fn add(&mut self, name: &str, hash: &str) -> Result<(), BadHash> {
        let parts: HashParts = hash.parse().map_err(|_| BadHash::NotBcrypt)?;
        let cost = parts.get_cost();
        if !(4..=HIGHEST_COST).contains(&cost) {
            return Err(BadHash::Cost(cost));
        }
        self.cost = self.cost.max(cost);
        let text = hash.to_owned();
        self.hashes.insert(name.to_owned(), Hash { text, cost });
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }

    /// Goes on knowing the passwords that `before` had found right, of users whose hash is the same.
    pub(super) fn remember_from(&mut self, before: &Self) {
        let known = before.known.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |name: &String| {
            let (new, old) = (self.hashes.get(name), before.hashes.get(name));
            new.zip(old).is_some_and(|(new, old)| new.text == old.text)
        };
        let accepted = known.accepted.iter().filter(|(name, _)| same(name));
        let accepted = accepted.map(|(name, digest)| (name.clone(), *digest));
        let accepted = accepted.collect();
        self.key = before.key;
        self.known = Mutex::new(Known {
            accepted,
            refused: VecDeque::new(),
        });
    }

    /// Whether a request with these headers, from this address, is one of theirs.
    pub(super) async fn admit(&self, headers: &HeaderMap, from: IpAddr) -> Admission {
        if self.hashes.is_empty() {
            return Admission::Admitted;
        }
        let Some((name, password)) = credentials(headers) else {
            return Admission::Refused;
        };
        let digest = self.digest(&name, &password);
        if let Some(known) = self.known(&name, &digest) {
            return known.into();
        }
        let Some(place) = self.place(from) else {
            return Admission::TooMany;
        };
        let Ok(turn) = Arc::clone(&self.working).acquire_owned().await else {
            return Admission::Refused;
        };
        // Whoever waited may ask what the one before asked.
        if let Some(known) = self.known(&name, &digest) {
            return known.into();
        }
        let (hash, most) = (self.hashes.get(&name).cloned(), self.cost);
        let worked = tokio::task::spawn_blocking(move || {
            // Held until the work is done, also if nobody waits for it any more.
            let _held = (turn, place);
            verify(&password, hash.as_ref(), most)
        });
        let admitted = worked.await.unwrap_or(false);
        self.remember(name, digest, admitted);
        admitted.into()
    }

    /// A place in the queue for a guess from an address, if there is one.
    fn place(&self, from: IpAddr) -> Option<Place> {
        // One address, whichever way it is written.
        let from = from.to_canonical();
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let own = queue.get(&from).copied().unwrap_or(0);
        if own >= QUEUE_OF_ONE || queue.values().sum::<usize>() >= QUEUE {
            return None;
        }
        queue.insert(from, own + 1);
        Some(Place {
            queue: Arc::clone(&self.queue),
            from,
        })
    }

    fn digest(&self, name: &str, password: &[u8]) -> Fingerprint {
        let mut digest = Sha256::new();
        digest.update(self.key);
        digest.update(name.len().to_le_bytes());
        digest.update(name);
        digest.update(password);
        digest.finalize().into()
    }

    fn known(&self, name: &str, digest: &Fingerprint) -> Option<bool> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |other: &Fingerprint| bool::from(other.ct_eq(digest));
        if known.accepted.get(name).is_some_and(same) {
            return Some(true);
        }
        known.refused.iter().any(same).then_some(false)
    }

    fn remember(&self, name: String, digest: Fingerprint, admitted: bool) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if admitted {
            known.accepted.insert(name, digest);
            return;
        }
        if known.refused.len() == REFUSED {
            known.refused.pop_front();
        }
        known.refused.push_back(digest);
    }
}

/// Compares with the hash, in the time that the highest cost takes, whatever the hash's own cost is and whether there is one.
fn verify(password: &[u8], hash: Option<&Hash>, most: u32) -> bool {
    let admitted = hash.is_some_and(|hash| bcrypt::verify(password, &hash.text).unwrap_or(false));
    for cost in padding(hash.map(|hash| hash.cost), most) {
        let _ = std::hint::black_box(bcrypt::hash_with_salt(password, cost, SALT));
    }
    admitted
}

/// The costs of the work that has to follow one at the own cost, so that all of it is as much as one at the highest: 2^own +
/// 2^own + 2^(own + 1) + … is 2^most.
fn padding(own: Option<u32>, most: u32) -> Range<u32> {
    match own {
        Some(own) => own..most,
        None => most..most + 1,
    }
}

/// The name and the password in `Authorization: Basic`.
fn credentials(headers: &HeaderMap) -> Option<(String, Vec<u8>)> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, encoded) = value.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = STANDARD.decode(encoded.trim()).ok()?;
    let colon = decoded.iter().position(|byte| *byte == b':')?;
    let name = String::from_utf8(decoded[..colon].to_vec()).ok()?;
    Some((name, decoded[colon + 1..].to_vec()))
}

#[cfg(test)]
#[path = "users_tests.rs"]
mod tests;
