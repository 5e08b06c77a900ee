//! `explore` as a browser sees it: the real binary, a real socket.
#![cfg(unix)]

use serde_json::{Value, json};

use crate::listening::{Listening, status};
use crate::{Desk, text};

fn answer(page: &Listening, path: &str, body: &Value) -> (u16, Value) {
    let (code, answer) = page.ask("POST", path, &body.to_string());
    (code, serde_json::from_str(&answer).unwrap())
}

#[test]
fn a_page_is_shown_whose_answers_are_those_of_the_commands() {
    let page = Listening::start("explore prefix-warm --port 0");
    assert!(
        page.opening.ends_with("/ in a browser; Ctrl-C ends it\n"),
        "{}",
        page.opening
    );
    let (head, html) = page.exchange("GET", "/", "");
    assert_eq!(status(&head), 200);
    assert!(html.starts_with("<!DOCTYPE html>"), "{}", &html[..99]);
    assert!(
        head.contains("content-security-policy: default-src 'self'"),
        "{head}"
    );
    // Whatever the page names is there.
    for quoted in html
        .split('"')
        .filter(|word| word.ends_with(".js") || word.ends_with(".css"))
    {
        let (code, _) = page.ask("GET", &format!("/{}", quoted.trim_start_matches('/')), "");
        assert_eq!(code, 200, "{quoted}");
    }
    let (code, start) = page.ask("GET", "/api/start", "");
    assert_eq!(code, 200);
    let start: Value = serde_json::from_str(&start).unwrap();
    assert_eq!(
        (&start["base"], start["version"].is_string()),
        (&json!("prefix-warm"), true)
    );
    let asked = json!({"flags": {"request-rate": "2", "max-num-seqs": "40"}, "film": true});
    let (code, ran) = answer(&page, "/api/run", &asked);
    assert_eq!(code, 200);
    let command = ran["command"].as_str().unwrap();
    assert_eq!(
        command,
        "plimsoll run prefix-warm --max-num-seqs 40 --request-rate 2"
    );
    let desk = Desk::new();
    let words = command.trim_start_matches("plimsoll ");
    let mut told: Value = serde_json::from_str(&desk.expect(0, &format!("{words} --format json"))).unwrap();
    let mut shown = ran["result"].clone();
    for result in [&mut told, &mut shown] {
        result["date"] = Value::Null;
    }
    assert!(
        told == shown,
        "the page shows another result than the command prints"
    );
    let film = &ran["film"];
    assert_eq!(film["replicas"][0]["max_num_seqs"], 40);
    assert!(
        film["steps"]["begin"]
            .as_array()
            .is_some_and(|steps| steps.len() > 100)
    );
    let (code, rest) = page.end();
    assert_eq!((code, rest.as_str()), (Some(0), ""));
}

#[test]
fn what_cannot_be_shown_is_told() {
    let page = Listening::start("explore quickstart --port 0");
    let (code, refused) = answer(&page, "/api/run", &json!({"flags": {"max-num-seqs": "0"}}));
    assert_eq!(code, 422);
    assert!(
        refused["problems"][0]["message"]
            .as_str()
            .unwrap()
            .contains("`--max-num-seqs` must be"),
        "{refused}"
    );
    assert_eq!(refused["command"], "plimsoll run quickstart --max-num-seqs 0");
    for body in [
        "",
        "[]",
        "{\"flags\": 3}",
        "{\"flag\": {}}",
        "{\"flags\": {\"gpu\": 3}}",
    ] {
        let (code, _) = page.ask("POST", "/api/run", body);
        assert_eq!(code, 400, "{body}");
    }
    assert_eq!(page.ask("GET", "/../Cargo.toml", "").0, 404);
    assert_eq!(page.ask("GET", "/api/run", "").0, 405);
    // By the name of somebody else's page nobody comes in.
    let raw = "GET / HTTP/1.1\r\nhost: example.org\r\nconnection: close\r\n\r\n";
    assert_eq!(page.raw(raw).0, 403);
    // A form of another page cannot say that it is JSON.
    let raw = "POST /api/run HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\n{}";
    assert_eq!(page.raw(raw).0, 415);
}

#[test]
fn what_has_no_page_is_refused_before() {
    let desk = Desk::new();
    let wrong = desk.run("explore quickstart --gpu h1000 --port 0");
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("h1000"), "{}", text(&wrong.stderr));
    let misfit = desk.run("explore meta-llama/Llama-3.1-70B-Instruct --gpu h100 --request-rate 1 --input-len 9 --output-len 9 --port 0");
    assert_eq!(misfit.status.code(), Some(3));
    let taken = Listening::start("explore --port 0");
    let port = taken.address.rsplit(':').next().unwrap();
    let second = desk.run(&format!("explore --port {port}"));
    assert_eq!(second.status.code(), Some(1), "{}", text(&second.stderr));
    assert!(
        text(&second.stderr).contains("another --port"),
        "{}",
        text(&second.stderr)
    );
}
