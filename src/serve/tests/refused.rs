//! What is taken and changes nothing, and what is refused: by whom, with which status and which words.

use super::*;

#[test]
fn what_has_no_effect_is_taken() {
    answer(
        COMPLETIONS,
        json!({
            "prompt": "a", "temperature": 0, "top_p": 0.5, "seed": 7, "stop": ["x"], "logprobs": null, "logit_bias": {"1": 2}, "echo": false,
            "best_of": 1, "nonsense": {}, "stream_options": null, "response_format": {"type": "text"}, "repetition_penalty": 1.0,
        }),
    );
    answer(
        CHAT,
        json!({
            "messages": [{"role": "user", "content": "a"}, {"role": "tool", "content": "7", "tool_call_id": "x"}],
            "tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": "auto", "logprobs": false, "top_logprobs": 0,
        }),
    );
}

#[test]
fn what_cannot_be_is_refused_with_its_parameter() {
    for (param, body) in [
        ("body.prompt", json!({})),
        ("body.prompt", json!({"prompt": ""})),
        ("body.prompt", json!({"prompt": [1, -2]})),
        ("body.prompt", json!({"prompt": [1.5]})),
        ("body.prompt", json!({"prompt": ["a", 1]})),
        ("body.prompt", json!({"prompt": vec!["a"; 1025]})),
        ("body.prompt", json!({"prompt": {"a": 1}})),
        ("prompt", json!({"prompt": []})),
        ("prompt", json!({"prompt": [[]]})),
        ("max_tokens", json!({"prompt": "a", "max_tokens": 0})),
        ("max_tokens", json!({"prompt": "a", "max_tokens": -1})),
        ("body.max_tokens", json!({"prompt": "a", "max_tokens": 1e30})),
        ("body.max_tokens", json!({"prompt": "a", "max_tokens": 1.5})),
        ("max_tokens", json!({"prompt": vec![1; 100]})),
        ("input_tokens", json!({"prompt": vec![1; 101]})),
        (
            "min_tokens",
            json!({"prompt": "a", "max_tokens": 3, "min_tokens": 4}),
        ),
        ("min_tokens", json!({"prompt": "a", "min_tokens": -1})),
        ("n", json!({"prompt": "a", "n": 0})),
        ("n", json!({"prompt": "a", "n": 1_000_000_000})),
        ("n", json!({"prompt": ["a", "b"], "n": 10_000})),
        ("n", json!({"prompt": "a", "n": 2, "temperature": 0.0})),
        ("temperature", json!({"prompt": "a", "temperature": -1})),
        ("top_p", json!({"prompt": "a", "top_p": 0})),
        ("echo", json!({"prompt": "a", "echo": true})),
        ("logprobs", json!({"prompt": "a", "logprobs": 0})),
        ("suffix", json!({"prompt": "a", "suffix": "b"})),
        ("stop", json!({"prompt": "a", "stop": [""]})),
        (
            "body.stop",
            json!({"prompt": "a", "stop": ["a", "b", "c", "d", "e"]}),
        ),
        ("body.stream", json!({"prompt": "a", "stream": "perhaps"})),
        (
            "body.stream_options",
            json!({"prompt": "a", "stream_options": {"include_usage": true}}),
        ),
        (
            "body.stream_interval",
            json!({"prompt": "a", "stream_interval": 0}),
        ),
        ("body.model", json!({"prompt": "a", "model": 7})),
    ] {
        let (status, told, message) = error(COMPLETIONS, body.clone());
        assert_eq!((status, told.as_str()), (400, param), "{body}: {message}");
    }
    let user = json!([{"role": "user", "content": "a"}]);
    for (param, body) in [
        ("body.messages", json!({})),
        ("body.messages", json!({"messages": []})),
        ("body.messages.0", json!({"messages": ["hi"]})),
        ("body.messages.0.role", json!({"messages": [{"content": "hi"}]})),
        (
            "body.messages.0.content",
            json!({"messages": [{"role": "user", "content": 7}]}),
        ),
        (
            "body.messages.0.content.0",
            json!({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}),
        ),
        ("body.tools", json!({"messages": user, "tools": []})),
        (
            "tool_choice",
            json!({"messages": user, "tools": [{}], "tool_choice": "required"}),
        ),
        (
            "response_format",
            json!({"messages": user, "response_format": {"type": "json_object"}}),
        ),
        ("logprobs", json!({"messages": user, "logprobs": true})),
        (
            "body.continue_final_message",
            json!({"messages": user, "continue_final_message": true, "add_generation_prompt": true}),
        ),
    ] {
        let (status, told, message) = error(CHAT, body.clone());
        assert_eq!((status, told.as_str()), (400, param), "{body}: {message}");
    }
    let (status, param, message) = error(COMPLETIONS, json!({"prompt": "a", "model": "other"}));
    assert_eq!((status, param.as_str()), (404, "model"));
    assert_eq!(
        message,
        "The model `other` does not exist. Valid aliases: org/model, model, batch."
    );
}

#[test]
fn refusals_of_the_desk_have_the_status_of_an_engine() {
    let refused: [(Says, u16); 5] = [
        (|_, ask| vec![ending(ask, Why::TooLong, 0)], 400),
        (|_, ask| vec![ending(ask, Why::Full, 0)], 503),
        (|_, ask| vec![ending(ask, Why::RateLimited, 0)], 429),
        (|_, ask| vec![ending(ask, Why::Closed, 0)], 503),
        (
            |id, ask| vec![Said::Taken { id, prompt_tokens: 1 }, ending(ask, Why::Failed, 0)],
            500,
        ),
    ];
    for (says, code) in refused {
        run(async {
            let (router, _asks, _gone) = made_up(says);
            let body = json!({"prompt": "a"}).to_string();
            let request = Request::builder().method("POST").uri(COMPLETIONS);
            let request = request.header("content-type", "application/json");
            let answer = router
                .oneshot(request.body(Body::from(body)).expect("a request"))
                .await
                .expect("an answer");
            assert_eq!(answer.status().as_u16(), code);
            let after = answer.headers().get("retry-after");
            let after = after.map(|seconds| seconds.to_str().expect("digits"));
            assert_eq!(after, (code == 429).then_some("7"));
        });
    }
}

#[test]
fn a_request_lost_in_its_stream_ends_it_with_an_error() {
    run(async {
        let (router, _asks, mut gone) = made_up(|id, ask| {
            let said = vec![Said::Taken { id, prompt_tokens: 1 }, Said::Tokens(1)];
            let lost = (id == 0).then(|| ending(ask, Why::Failed, 1));
            said.into_iter().chain(lost).collect()
        });
        let body = json!({"prompt": "a", "n": 2, "stream": true}).to_string();
        let (status, told) = send(&router, "POST", COMPLETIONS, body).await;
        assert_eq!(status, StatusCode::OK);
        assert_eq!(
            events(&told).last().expect("it ends with an event")["error"]["code"],
            500
        );
        // The other sequence is given up.
        assert_eq!(gone.recv().await, Some(1));
    });
}
