//! A command of the real binary that listens at a socket, and who talks to it.
#![cfg(unix)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::Value;

/// A command that listens, until it is dropped.
pub(crate) struct Listening {
    pub(crate) child: Child,
    pub(crate) stdout: BufReader<ChildStdout>,
    /// What it says of itself first.
    pub(crate) opening: String,
    pub(crate) address: String,
}

impl Listening {
    pub(crate) fn start(words: &str) -> Listening {
        let mut child = command(words).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut opening = String::new();
        stdout.read_line(&mut opening).unwrap();
        let (_, rest) = opening.split_once("http://").expect(&opening);
        let address = rest.split(|end: char| end.is_whitespace() || end == '/').next();
        let address = address.unwrap().to_owned();
        Listening {
            child,
            stdout,
            opening,
            address,
        }
    }

    /// Status and body of what it answers.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let (head, body) = self.exchange(method, path, body);
        (status(&head), body)
    }

    /// The head and the body of what it answers.
    pub(crate) fn exchange(&self, method: &str, path: &str, body: &str) -> (String, String) {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        self.say(&(head + body))
    }

    /// Status and body of what it answers to a message as it stands.
    pub(crate) fn raw(&self, message: &str) -> (u16, String) {
        let (head, body) = self.say(message);
        (status(&head), body)
    }

    fn say(&self, message: &str) -> (String, String) {
        let mut socket = TcpStream::connect(&self.address).unwrap();
        socket.write_all(message.as_bytes()).unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.to_owned(), body.to_owned())
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Value {
        let (status, answer) = self.ask("POST", path, &body.to_string());
        assert_eq!(status, 200, "{answer}");
        serde_json::from_str(&answer).unwrap()
    }

    /// Ctrl-C; its exit code and the rest of what it prints.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let pid = self.child.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-INT", &pid])
                .status()
                .unwrap()
                .success()
        );
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).unwrap();
        (self.child.wait().unwrap().code(), rest)
    }
}

pub(crate) fn status(head: &str) -> u16 {
    head.split(' ').nth(1).unwrap().parse().unwrap()
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(words: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command
        .args(words.split_whitespace())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    command
}
