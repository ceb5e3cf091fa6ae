#![allow(clippy::unwrap_used)]
use super::*;
use futures::FutureExt;
use hyper::header::HeaderValue;

/// At the lowest cost, so that tests are quick.
fn hash(password: &str, cost: u32) -> String {
    bcrypt::hash_with_salt(password, cost, [7; 16])
        .unwrap()
        .to_string()
}

fn users() -> Users {
    let mut users = Users::with_key([3; 32]);
    users.add("alice", &hash("open sesame", 4)).unwrap();
    users.add("bob", &hash("hunter2", 5)).unwrap();
    users
}

fn with(value: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(AUTHORIZATION, HeaderValue::from_str(value).unwrap());
    headers
}

fn basic(credentials: &str) -> HeaderMap {
    with(&format!("Basic {}", STANDARD.encode(credentials)))
}

fn address(last: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, last])
}

async fn admits(users: &Users, headers: &HeaderMap) -> bool {
    users.admit(headers, address(1)).await == Admission::Admitted
}

#[tokio::test]
async fn who_has_the_password_is_admitted() {
    let users = users();
    for (credentials, admitted) in [
        ("alice:open sesame", true),
        ("alice:open sesame", true),
        ("bob:hunter2", true),
        ("alice:hunter2", false),
        ("alice:hunter2", false),
        ("alice:", false),
        ("carol:open sesame", false),
        (":open sesame", false),
        ("alice", false),
        ("alice:open sesame", true),
    ] {
        assert_eq!(
            admits(&users, &basic(credentials)).await,
            admitted,
            "{credentials}"
        );
    }
    let encoded = STANDARD.encode("alice:open sesame");
    assert!(admits(&users, &with(&format!("bAsIc {encoded}"))).await);
    for value in [
        format!("Bearer {encoded}"),
        format!("Basic{encoded}"),
        format!("Basic {encoded}!"),
        encoded,
        "Basic".to_owned(),
        "Basic /w==".to_owned(),
    ] {
        assert!(!admits(&users, &with(&value)).await, "{value}");
    }
    assert!(!admits(&users, &HeaderMap::new()).await);
    assert!(admits(&Users::none(), &HeaderMap::new()).await);
}

#[tokio::test]
async fn what_was_worked_out_once_is_known() {
    let users = users();
    for credentials in ["alice:open sesame", "alice:wrong", "carol:wrong"] {
        admits(&users, &basic(credentials)).await;
    }
    // No more work can be done.
    users.working.close();
    assert!(admits(&users, &basic("alice:open sesame")).await);
    assert!(!admits(&users, &basic("alice:wrong")).await);
    assert!(
        !admits(&users, &basic("bob:hunter2")).await,
        "this was not known"
    );
}

#[test]
fn what_is_remembered_is_bounded_and_no_password() {
    let users = users();
    let digest = users.digest("alice", b"open sesame");
    users.remember("alice".to_owned(), digest, true);
    for guess in 0..100_u8 {
        let guess = users.digest("alice", &[guess]);
        users.remember("alice".to_owned(), guess, false);
    }
    {
        let known = users.known.lock().unwrap();
        assert_eq!((known.accepted.len(), known.refused.len()), (1, REFUSED));
    }
    // Guesses push no right one out.
    assert_eq!(users.known("alice", &digest), Some(true));
    assert_eq!(users.known("alice", &users.digest("alice", &[0])), None);
    assert_eq!(
        users.known("alice", &users.digest("alice", &[99])),
        Some(false)
    );
    // Another process, another digest; and what belongs to the name is no part of the password.
    let other = Users::with_key([4; 32]);
    assert_ne!(other.digest("alice", b"open sesame"), digest);
    assert_ne!(users.digest("al", b"iceopen sesame"), digest);
    let told = format!("{users:?}");
    assert!(!told.contains("$2") && !told.contains("alice"), "{told}");
}

#[test]
fn a_refusal_takes_as_much_work_whoever_is_refused() {
    let all = |own: Option<u32>, most: u32| {
        let first = own.map_or(0, |own| 1_u32 << own);
        first + padding(own, most).map(|cost| 1 << cost).sum::<u32>()
    };
    for own in [None, Some(4), Some(5), Some(9), Some(12)] {
        assert_eq!(all(own, 12), 1 << 12, "{own:?}");
    }
}

#[test]
fn hashes_that_cannot_be_used_are_refused() {
    let mut users = Users::none();
    for bad in ["", "hunter2", "$1$abc", &hash("a", 4)[..59]] {
        assert_eq!(users.add("a", bad), Err(BadHash::NotBcrypt), "{bad}");
    }
    let costly = hash("a", 4).replacen("$04$", "$17$", 1);
    assert_eq!(users.add("a", &costly), Err(BadHash::Cost(17)));
    assert!(users.is_empty());
    // As htpasswd and other tools write them.
    for version in ["2a", "2b", "2y"] {
        let written = hash("a", 4).replacen("$2b$", &format!("${version}$"), 1);
        users.add(version, &written).unwrap();
    }
}

#[tokio::test]
async fn whoever_guesses_keeps_out_nobody_elsewhere() {
    let users = users();
    // Nothing is worked out meanwhile.
    let working = Arc::clone(&users.working).acquire_owned().await.unwrap();
    let guess = |from: u8, n: usize| {
        let (users, headers) = (&users, basic(&format!("alice:{from} {n}")));
        async move { users.admit(&headers, address(from)).await }
    };
    let mut waiting = Vec::new();
    for n in 0..QUEUE_OF_ONE {
        let mut one = Box::pin(guess(1, n));
        assert!(futures::poll!(&mut one).is_pending());
        waiting.push(one);
    }
    let one_more = guess(1, 99).now_or_never();
    assert_eq!(one_more, Some(Admission::TooMany));
    let right = basic("alice:open sesame");
    let mut other = Box::pin(users.admit(&right, address(2)));
    assert!(futures::poll!(&mut other).is_pending());
    // All addresses together are no more than the queue.
    let mut far = Vec::new();
    for from in 3.. {
        let mut one = Box::pin(guess(from, 0));
        match futures::poll!(&mut one) {
            std::task::Poll::Pending => far.push(one),
            std::task::Poll::Ready(answer) => {
                assert_eq!(answer, Admission::TooMany);
                break;
            }
        }
    }
    assert_eq!(waiting.len() + 1 + far.len(), QUEUE);
    // Who goes away gives its place back, and who was not kept out is answered.
    drop((waiting, far, working));
    assert_eq!(other.await, Admission::Admitted);
    assert!(users.queue.lock().unwrap().is_empty());
}

#[tokio::test]
async fn what_was_right_is_known_after_the_file_was_read_again() {
    let before = users();
    for credentials in ["alice:open sesame", "bob:hunter2", "alice:wrong"] {
        admits(&before, &basic(credentials)).await;
    }
    let mut users = Users::with_key([4; 32]);
    users.add("alice", &hash("open sesame", 4)).unwrap();
    users.add("bob", &hash("hunter3", 5)).unwrap();
    users.remember_from(&before);
    // No work can be done.
    users.working.close();
    assert!(admits(&users, &basic("alice:open sesame")).await);
    assert!(!admits(&users, &basic("bob:hunter2")).await);
    let refused = users.digest("alice", b"wrong");
    assert_eq!(users.known("alice", &refused), None);
}
