//! Requests through the routes to a made-up desk: shapes, order of chunks, errors, and clients that go away.

mod refused;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::Builder;
use tokio::sync::{mpsc, watch};
use tower::ServiceExt;

use super::desk::{Ask, Desk, Ending, House, Message, Name, Said, Span, Why};
use super::filler::Filler;
use super::http;
use crate::ids::RequestId;

const COMPLETIONS: &str = "/v1/completions";
const CHAT: &str = "/v1/chat/completions";

/// What a request of this number is told.
type Says = fn(u64, &Ask) -> Vec<Said>;

fn house() -> House {
    House {
        names: [
            ("org/model", "org/model", None, 0, 0),
            ("model", "org/model", None, 0, 0),
            ("batch", "batch", Some("org/model"), 1, 10),
        ]
        .map(|(name, answers, parent, class, priority)| Name {
            name: name.to_owned(),
            answers: answers.to_owned(),
            parent: parent.map(str::to_owned),
            class,
            priority,
        })
        .to_vec(),
        max_model_len: 100,
        engine: "vllm@0.33".to_owned(),
        chars_per_token: 4.0,
        created: 5,
        deprecated_metrics: false,
    }
}

/// The text of an answer of [`house`].
fn filler(id: u64, prompt_tokens: u32, tokens: u32) -> String {
    let house = house();
    Filler::new(id, prompt_tokens, house.created, house.chars_per_token).text(tokens)
}

fn ending(ask: &Ask, why: Why, output_tokens: u32) -> Said {
    Said::Ended(Ending {
        why,
        prompt_tokens: ask.prompt.iter().map(Span::tokens).sum(),
        output_tokens,
        cached_tokens: 2,
        ttft_s: Some(0.25),
        e2el_s: 1.5,
        retry_after: (why == Why::RateLimited).then_some(7),
    })
}

/// Taken in as `id`, and told token by token to the end of its `max_tokens`.
fn answered(id: u64, ask: &Ask) -> Vec<Said> {
    let tokens = ask.max_tokens.unwrap_or(3);
    let mut said = vec![Said::Taken {
        id,
        prompt_tokens: ask.prompt.iter().map(Span::tokens).sum(),
    }];
    if ask.streams {
        said.extend((0..tokens).map(|_| Said::Tokens(1)));
    }
    said.push(ending(ask, Why::Length, tokens));
    said
}

/// A desk, and what comes through it.
fn open() -> (Desk, mpsc::UnboundedReceiver<Message>) {
    let (desk, received) = Desk::open(house());
    let (forward, posts) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for post in received {
            let _ = forward.send(post);
        }
    });
    (desk, posts)
}

/// A desk whose requests, numbered from 0, are told what `says` makes of them; and what it was asked and heard of clients gone.
fn made_up(says: Says) -> (Router, mpsc::UnboundedReceiver<Ask>, mpsc::UnboundedReceiver<u64>) {
    let (desk, mut posts) = open();
    let (tell_ask, asks) = mpsc::unbounded_channel();
    let (tell_gone, gone) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut id = 0;
        // Held, so that a request without an end goes on.
        let mut held = Vec::new();
        while let Some(post) = posts.recv().await {
            match post {
                Message::Ask { ask, said, .. } => {
                    for word in says(id, &ask) {
                        let _ = said.send(word);
                    }
                    held.push(said);
                    id += 1;
                    let _ = tell_ask.send(ask);
                }
                Message::Gone { ticket, .. } => drop(tell_gone.send(ticket)),
                Message::Close => break,
                Message::Metrics(wants) => drop(wants.send("vllm:num_requests_running 3\n".to_owned())),
            }
        }
    });
    (http::router(desk), asks, gone)
}

fn run<T>(test: impl Future<Output = T>) -> T {
    Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(test)
}

async fn send(router: &Router, method: &str, path: &str, body: String) -> (StatusCode, String) {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", "application/json")
        .body(Body::from(body))
        .unwrap();
    let response = router.clone().oneshot(request).await.unwrap();
    let status = response.status();
    let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

/// What a request is answered when every one is answered in full.
fn ask(path: &str, body: Value) -> (StatusCode, String) {
    run(async {
        let (router, _asks, _gone) = made_up(answered);
        send(&router, "POST", path, body.to_string()).await
    })
}

fn answer(path: &str, body: Value) -> Value {
    let (status, body) = ask(path, body);
    assert_eq!(status, StatusCode::OK, "{body}");
    serde_json::from_str(&body).unwrap()
}

fn error(path: &str, body: Value) -> (u16, String, String) {
    let (status, told) = ask(path, body);
    let error = serde_json::from_str::<Value>(&told).unwrap()["error"].take();
    assert_eq!(error["code"], status.as_u16(), "{told}");
    let text = |key: &str| error[key].as_str().unwrap_or_default().to_owned();
    (status.as_u16(), text("param"), text("message"))
}

/// The events of a stream that ends with `[DONE]`.
fn events(body: &str) -> Vec<Value> {
    let mut events: Vec<&str> = body
        .split_terminator("\n\n")
        .map(|event| event.strip_prefix("data: ").unwrap())
        .collect();
    assert_eq!(events.pop(), Some("[DONE]"), "{body}");
    events
        .into_iter()
        .map(|event| serde_json::from_str(event).unwrap())
        .collect()
}

fn streamed(path: &str, body: Value) -> Vec<Value> {
    let (status, body) = ask(path, body);
    assert_eq!(status, StatusCode::OK, "{body}");
    events(&body)
}

/// What the desk is asked.
fn asked(path: &str, body: Value) -> Ask {
    run(async {
        let (router, mut asks, _gone) = made_up(answered);
        let (status, told) = send(&router, "POST", path, body.to_string()).await;
        assert_eq!(status, StatusCode::OK, "{told}");
        asks.recv().await.unwrap()
    })
}

#[test]
fn a_completion_has_its_text_usage_and_simulated_latencies() {
    let mut told = answer(
        COMPLETIONS,
        json!({"prompt": "12345678", "max_tokens": 3, "model": "model"}),
    );
    assert!(told["id"].take().as_str().unwrap().starts_with("cmpl-"));
    assert!(told["created"].take().is_u64());
    let text = told["choices"][0]["text"].take();
    assert_eq!(text, filler(0, 2, 3));
    assert_eq!(
        told,
        json!({
            "id": null, "object": "text_completion", "created": null, "model": "org/model",
            "choices": [{"index": 0, "text": null, "logprobs": null, "finish_reason": "length", "stop_reason": null}],
            "system_fingerprint": format!("plimsoll-{}-vllm@0.33", env!("CARGO_PKG_VERSION")),
            "usage": {"prompt_tokens": 2, "total_tokens": 5, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 2}},
            "plimsoll": {"ttft_ms": 250.0, "e2el_ms": 1500.0},
        })
    );
}

#[test]
fn every_prompt_has_n_answers_and_counts_once() {
    let told = answer(
        COMPLETIONS,
        json!({"prompt": ["12345678", [1, 2, 3]], "n": 2, "max_tokens": 2}),
    );
    let texts = told["choices"]
        .as_array()
        .unwrap()
        .iter()
        .map(|choice| choice["text"].as_str().unwrap());
    assert!(
        texts.eq([filler(0, 2, 2), filler(1, 2, 2), filler(2, 3, 2), filler(3, 3, 2)]),
        "{told}"
    );
    assert_eq!(told["usage"]["prompt_tokens"], 5);
    assert_eq!(told["usage"]["completion_tokens"], 8);
    assert_eq!(told["plimsoll"], Value::Null);
    let chunks = streamed(
        COMPLETIONS,
        json!({"prompt": [[1], [2]], "n": 2, "max_tokens": 3, "stream": true, "stream_options": {"include_usage": true}}),
    );
    assert_eq!(chunks.len(), 4 * 3 + 1);
    assert_eq!(chunks[12]["usage"]["prompt_tokens"], 2);
    let finished = chunks
        .iter()
        .filter(|chunk| chunk["choices"][0]["finish_reason"] == "length");
    assert_eq!(finished.count(), 4);
}

#[test]
fn a_stream_is_a_chunk_a_token_then_usage_then_done() {
    let body =
        json!({"prompt": "1234", "max_tokens": 3, "stream": true, "stream_options": {"include_usage": true}});
    let chunks = streamed(COMPLETIONS, body);
    let reasons: Vec<&Value> = chunks[..3]
        .iter()
        .map(|chunk| &chunk["choices"][0]["finish_reason"])
        .collect();
    assert_eq!(reasons, [&Value::Null, &Value::Null, &json!("length")]);
    let text: String = chunks[..3]
        .iter()
        .map(|chunk| chunk["choices"][0]["text"].as_str().unwrap())
        .collect();
    let whole = answer(COMPLETIONS, json!({"prompt": "1234", "max_tokens": 3}));
    assert_eq!(whole["choices"][0]["text"], text);
    assert!(
        chunks[..3]
            .iter()
            .all(|chunk| chunk.get("usage").is_none() && chunk.get("plimsoll").is_none())
    );
    assert_eq!(chunks.len(), 4);
    assert_eq!(chunks[3]["choices"], json!([]));
    assert_eq!(chunks[3]["usage"], whole["usage"]);
    assert_eq!(chunks[3]["plimsoll"]["e2el_ms"], 1500.0);
}

#[test]
fn a_chat_tells_its_role_first_and_without_usage_its_latencies_last() {
    let messages = json!([{"role": "user", "content": "hi"}]);
    let chunks = streamed(
        CHAT,
        json!({"messages": messages, "max_tokens": 2, "stream": true}),
    );
    assert_eq!(chunks.len(), 3);
    assert_eq!(chunks[0]["object"], "chat.completion.chunk");
    assert_eq!(
        chunks[0]["choices"][0]["delta"],
        json!({"role": "assistant", "content": ""})
    );
    assert_eq!(
        chunks[1]["choices"][0]["delta"],
        json!({"content": filler(0, 11, 1)})
    );
    assert_eq!(chunks[2]["choices"][0]["finish_reason"], "length");
    assert_eq!(chunks[2]["plimsoll"]["ttft_ms"], 250.0);
    let whole = answer(CHAT, json!({"messages": messages, "max_completion_tokens": 1}));
    assert_eq!(whole["object"], "chat.completion");
    assert_eq!(whole["choices"][0]["message"]["content"], filler(0, 11, 1));
    assert_eq!(whole["choices"][0]["message"]["role"], "assistant");
}

#[test]
fn continuous_usage_counts_up_and_intervals_gather_tokens() {
    let body = json!({
        "prompt": "1234", "max_tokens": 6, "stream": true, "stream_interval": 2,
        "stream_options": {"include_usage": true, "continuous_usage_stats": true},
    });
    let chunks = streamed(COMPLETIONS, body);
    let counts: Vec<u64> = chunks
        .iter()
        .map(|chunk| chunk["usage"]["completion_tokens"].as_u64().unwrap())
        .collect();
    assert_eq!(counts, [1, 3, 5, 6, 6]);
}

#[test]
fn a_stop_before_the_last_token_is_told_with_the_token_before_it() {
    run(async {
        let (router, _asks, _gone) = made_up(|id, ask| {
            let mut said = answered(id, ask);
            said.truncate(3);
            said.push(ending(ask, Why::Stop, 2));
            said
        });
        let body = json!({"prompt": "1234", "max_tokens": 50, "stream": true});
        let (_, told) = send(&router, "POST", COMPLETIONS, body.to_string()).await;
        let chunks = events(&told);
        assert_eq!(chunks.len(), 2);
        assert_eq!(chunks[1]["choices"][0]["finish_reason"], "stop");
    });
}

#[test]
fn an_answer_that_comes_back_is_known() {
    run(async {
        let (router, mut asks, _gone) = made_up(answered);
        let mut messages = vec![json!({"role": "user", "content": "Tell me a story"})];
        let body = json!({"messages": messages, "max_tokens": 20}).to_string();
        let (_, told) = send(&router, "POST", CHAT, body).await;
        let first = asks.recv().await.unwrap();
        let text = serde_json::from_str::<Value>(&told).unwrap()["choices"][0]["message"]["content"].take();
        messages.push(json!({"role": "assistant", "content": text}));
        messages.push(json!({"role": "user", "content": "go on"}));
        let body = json!({"messages": messages, "max_tokens": 1}).to_string();
        send(&router, "POST", CHAT, body).await;
        let second = asks.recv().await.unwrap();
        let start = first.prompt.iter().map(Span::tokens).sum();
        assert_eq!(second.prompt[..first.prompt.len()], *first.prompt);
        assert_eq!(
            second.prompt[first.prompt.len()],
            Span::Answer {
                id: RequestId(0),
                start,
                tokens: 20
            }
        );
    });
}

#[test]
fn what_is_asked_for_reaches_the_desk() {
    let ask = asked(
        COMPLETIONS,
        json!({"prompt": [5, 6, 7], "min_tokens": 2, "ignore_eos": true, "priority": -3, "user": "me", "max_tokens": 1e3}),
    );
    assert_eq!(ask.prompt.iter().map(Span::tokens).sum::<u32>(), 3);
    assert_eq!((ask.max_tokens, ask.min_tokens, ask.priority), (Some(97), 2, -3));
    assert!(ask.ignore_eos && !ask.streams && ask.session.is_some());
    let ask = asked(
        CHAT,
        json!({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]}]}),
    );
    assert_eq!((ask.max_tokens, ask.session), (None, None));
    assert_eq!(asked(COMPLETIONS, json!({"prompt": "a"})).max_tokens, Some(16));
}

#[test]
fn the_small_routes_answer() {
    run(async {
        let (router, _asks, _gone) = made_up(answered);
        let get = async |path: &str| send(&router, "GET", path, String::new()).await;
        for path in ["/health", "/ping"] {
            assert_eq!(get(path).await, (StatusCode::OK, String::new()));
        }
        assert_eq!(get("/version").await.1, r#"{"version":"0.33.0"}"#);
        assert_eq!(get("/metrics").await.1, "vllm:num_requests_running 3\n");
        let models: Value = serde_json::from_str(&get("/v1/models").await.1).unwrap();
        assert_eq!(models["data"][1]["id"], "model");
        assert_eq!(models["data"][1]["root"], "org/model");
        assert_eq!(models["data"][0]["max_model_len"], 100);
        assert_eq!(models["data"][0]["parent"], Value::Null);
        assert_eq!(models["data"][2]["id"], "batch");
        assert_eq!(models["data"][2]["parent"], "org/model");
        assert_eq!(
            get("/nothing").await,
            (StatusCode::NOT_FOUND, r#"{"detail":"Not Found"}"#.to_owned())
        );
        assert_eq!(get(COMPLETIONS).await.0, StatusCode::METHOD_NOT_ALLOWED);
    });
}

#[test]
fn the_name_of_a_class_is_a_model_of_its_own() {
    run(async {
        let (router, mut asks, _gone) = made_up(answered);
        for (body, class, priority, model) in [
            (json!({"prompt": "a"}), 0, 0, "org/model"),
            (json!({"prompt": "a", "model": ""}), 0, 0, "org/model"),
            (json!({"prompt": "a", "model": "model"}), 0, 0, "org/model"),
            (json!({"prompt": "a", "model": "batch"}), 1, 10, "batch"),
            (
                json!({"prompt": "a", "model": "batch", "priority": -3}),
                1,
                -3,
                "batch",
            ),
        ] {
            let (status, told) = send(&router, "POST", COMPLETIONS, body.to_string()).await;
            assert_eq!(status, StatusCode::OK, "{told}");
            let told: Value = serde_json::from_str(&told).unwrap();
            assert_eq!(told["model"], model);
            let ask = asks.recv().await.unwrap();
            assert_eq!((ask.class, ask.priority), (class, priority), "{body}");
        }
    });
}

#[test]
fn texts_can_be_cut_to_so_many_tokens() {
    let told = answer(
        "/tokenize",
        json!({"prompt": "Once upon a time, 你好", "return_token_strs": true}),
    );
    assert_eq!(told["count"], 7);
    assert_eq!(told["token_strs"][0], "Once");
    let cut: Vec<Value> = told["tokens"].as_array().unwrap()[..2].to_vec();
    assert_eq!(
        answer("/detokenize", json!({"tokens": cut}))["prompt"],
        "Once upo"
    );
    let words = answer("/detokenize", json!({"tokens": [128_000, 7, 9]}))["prompt"].take();
    assert_eq!(answer("/tokenize", json!({"prompt": words}))["count"], 3);
    let chat = answer(
        "/tokenize",
        json!({"messages": [{"role": "user", "content": "hi"}]}),
    );
    assert_eq!(chat["count"], 1 + 4 + 1 + 1 + 4);
    assert_eq!(error("/detokenize", json!({"tokens": ["a"]})).1, "body.tokens.0");
}

#[test]
fn bodies_that_are_no_requests_are_refused() {
    run(async {
        let (router, _asks, _gone) = made_up(answered);
        for body in ["", "{", "[]", "{\"prompt\": NaN}"] {
            let (status, told) = send(&router, "POST", COMPLETIONS, body.to_owned()).await;
            assert_eq!(status, StatusCode::BAD_REQUEST, "{told}");
        }
        let request = |kind: &str, body: String| {
            let request = Request::builder()
                .method("POST")
                .uri(COMPLETIONS)
                .header("content-type", kind);
            router.clone().oneshot(request.body(Body::from(body)).unwrap())
        };
        let body = json!({"prompt": "a"}).to_string();
        let kind = "application/json; charset=utf-8";
        assert_eq!(
            request("text/plain", body.clone()).await.unwrap().status(),
            StatusCode::BAD_REQUEST
        );
        assert_eq!(
            request(kind, body.clone()).await.unwrap().status(),
            StatusCode::OK
        );
        let huge = request(kind, body + &" ".repeat(64 << 20)).await.unwrap();
        assert_eq!(huge.status(), StatusCode::PAYLOAD_TOO_LARGE);
    });
}

/// Over a socket: a client that leaves is told of, and the server ends though a stream goes on.
#[test]
fn a_client_that_goes_away_is_told_of_and_a_stop_waits_for_nobody_for_ever() {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let (desk, mut posts) = open();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = watch::channel(false);
        let server = tokio::spawn(http::serve(listener, desk, stopped));
        let mut streams = Vec::new();
        for streaming in [true, false, true] {
            let mut socket = tokio::net::TcpStream::connect(address).await.unwrap();
            let body = json!({"prompt": "a", "stream": streaming}).to_string();
            let head = format!(
                "POST {COMPLETIONS} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                body.len()
            );
            socket.write_all((head + &body).as_bytes()).await.unwrap();
            let Some(Message::Ask { ticket, said, .. }) = posts.recv().await else {
                panic!("a request is posted");
            };
            said.send(Said::Taken { id: ticket, prompt_tokens: 1 }).unwrap();
            said.send(Said::Tokens(1)).unwrap();
            if streaming {
                let mut start = [0; 15];
                socket.read_exact(&mut start).await.unwrap();
                assert_eq!(&start, b"HTTP/1.1 200 OK");
            }
            streams.push((ticket, socket, said));
        }
        let (kept, _socket, _said) = streams.pop().unwrap();
        for (ticket, socket, _said) in streams {
            drop(socket);
            assert!(matches!(posts.recv().await, Some(Message::Gone { ticket: gone, .. }) if gone == ticket));
        }
        stop.send(true).unwrap();
        server.await.unwrap().unwrap();
        // Connections outlive the server, and end with the runtime.
        assert!(posts.try_recv().is_err(), "{kept} has its client");
    });
}
