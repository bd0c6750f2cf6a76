use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use super::Proxy;

/// A server that answers `<line>!` to each line, and a proxy in front of it.
fn echo() -> Proxy {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                let mut line = Vec::new();
                let mut byte = [0];
                while let Ok(1) = stream.read(&mut byte) {
                    match byte[0] {
                        b'\n' => stream.write_all(&[&std::mem::take(&mut line)[..], b"!"].concat()).unwrap(),
                        other => line.push(other),
                    }
                }
            });
        }
    });
    Proxy::start(address).unwrap()
}

fn connect(proxy: &Proxy) -> TcpStream {
    let stream = TcpStream::connect(proxy.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

/// The answer up to `!`; an error if the connection ends before.
fn ask(stream: &mut TcpStream, line: &str) -> std::io::Result<String> {
    stream.write_all(format!("{line}\n").as_bytes())?;
    listen(stream)
}

fn listen(stream: &mut TcpStream) -> std::io::Result<String> {
    let mut answer = Vec::new();
    let mut byte = [0];
    loop {
        stream.read_exact(&mut byte)?;
        if byte[0] == b'!' {
            return Ok(String::from_utf8(answer).unwrap());
        }
        answer.push(byte[0]);
    }
}

#[test]
fn what_is_cut_is_reset_and_what_is_healed_works() {
    let proxy = echo();
    let mut stream = connect(&proxy);
    assert_eq!(ask(&mut stream, "one").unwrap(), "one");
    proxy.cut();
    assert!(listen(&mut stream).is_err());
    // Accepted by the system and reset by the proxy, or refused.
    let refused = TcpStream::connect(proxy.address()).and_then(|mut stream| ask(&mut stream, "two"));
    assert!(refused.is_err());
    proxy.heal();
    assert_eq!(ask(&mut connect(&proxy), "three").unwrap(), "three");
}

#[test]
fn what_is_held_arrives_when_it_is_healed() {
    let proxy = echo();
    let mut stream = connect(&proxy);
    assert_eq!(ask(&mut stream, "one").unwrap(), "one");
    proxy.hold();
    stream.write_all(b"two\n").unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    assert!(stream.read(&mut [0]).is_err(), "something passed");
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    proxy.heal();
    assert_eq!(listen(&mut stream).unwrap(), "two");
}

#[test]
fn a_lost_reply_takes_its_connection_with_it_once() {
    let proxy = echo();
    let (mut first, mut second) = (connect(&proxy), connect(&proxy));
    proxy.lose_reply_to(b"COMMIT", b"!");
    assert_eq!(ask(&mut first, "other").unwrap(), "other");
    assert!(ask(&mut first, "COMMIT").is_err());
    assert_eq!(proxy.sprung(), 1);
    assert_eq!(ask(&mut second, "COMMIT").unwrap(), "COMMIT");
}

#[test]
fn a_frozen_request_holds_only_its_own_connection() {
    let proxy = echo();
    let (mut first, mut second) = (connect(&proxy), connect(&proxy));
    proxy.freeze_on(b"stuck");
    first.write_all(b"stuck\n").unwrap();
    assert_eq!(ask(&mut second, "free").unwrap(), "free");
    first.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    assert!(first.read(&mut [0]).is_err());
    assert_eq!((proxy.sprung(), proxy.open()), (1, 2));
    proxy.heal();
    first.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    assert!(listen(&mut first).is_err(), "what was frozen is reset");
}

#[test]
fn a_reply_is_cut_after_so_many_bytes() {
    let proxy = echo();
    let mut stream = connect(&proxy);
    proxy.cut_after_reply_bytes(6);
    assert_eq!(ask(&mut stream, "one").unwrap(), "one");
    assert!(ask(&mut stream, "three").is_err());
    assert_eq!(ask(&mut connect(&proxy), "four").unwrap(), "four");
}

#[test]
fn delayed_answers_do_not_queue() {
    let proxy = echo();
    let mut stream = connect(&proxy);
    assert_eq!(ask(&mut stream, "one").unwrap(), "one");
    let delay = Duration::from_millis(400);
    proxy.delay_answers(delay);
    let began = std::time::Instant::now();
    for _ in 0..10 {
        stream.write_all(b"two\n").unwrap();
        std::thread::sleep(Duration::from_millis(10));
    }
    for _ in 0..10 {
        assert_eq!(listen(&mut stream).unwrap(), "two");
    }
    assert!(began.elapsed() >= delay, "not delayed");
    assert!(began.elapsed() < delay * 5, "each answer waited for the one before: {:?}", began.elapsed());
}
