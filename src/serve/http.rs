//! Routes and the socket: vLLM's endpoints, of which those that engines answer go to the desk.
//!
//! Left out: TLS and keys, which whoever needs them puts in front. Names of headers and shapes of errors are vLLM 0.33's, of unknown routes FastAPI's.

use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::serve::ListenerExt;
use serde::Serialize;
use serde_json::{Map, Value};
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::desk::Desk;
use super::openai::answers::{self, Head, Numbers};
use super::openai::error::ApiError;
use super::openai::{Api, fields, request, stream, tokenize, whole};

/// Largest body of a request: a million token ids, several times over.
const MOST_BYTES: usize = 64 << 20;
/// How long clients may finish what they are told once nobody new is let in.
const GRACE: Duration = Duration::from_secs(3);

/// Answers connections until `stop` holds true, or its sender is dropped; then lets clients finish for some seconds.
pub async fn serve(listener: TcpListener, desk: Desk, mut stop: watch::Receiver<bool>) -> io::Result<()> {
    // Chunks are small and wait for nobody.
    let listener = listener.tap_io(|socket| {
        let _ = socket.set_nodelay(true);
    });
    let mut late = stop.clone();
    let stopped = async move {
        let _ = stop.wait_for(|stop| *stop).await;
    };
    let serving = axum::serve(listener, router(desk)).with_graceful_shutdown(stopped);
    let overdue = async move {
        let _ = late.wait_for(|stop| *stop).await;
        tokio::time::sleep(GRACE).await;
    };
    tokio::select! {
        ended = serving => ended,
        () = overdue => Ok(()),
    }
}

struct House {
    desk: Desk,
    numbers: Numbers,
}

type Shared = State<Arc<House>>;

/// All routes.
pub fn router(desk: Desk) -> Router {
    let house = House {
        desk,
        numbers: Numbers::default(),
    };
    Router::new()
        .route("/v1/completions", post(completions))
        .route("/v1/chat/completions", post(chat_completions))
        .route("/v1/models", get(models))
        .route("/tokenize", post(tokenize_text))
        .route("/detokenize", post(detokenize_ids))
        .route("/health", get(healthy))
        .route("/ping", get(healthy).post(healthy))
        .route("/version", get(version))
        .route("/metrics", get(metrics))
        .fallback(|| async { detail(StatusCode::NOT_FOUND) })
        .method_not_allowed_fallback(|| async { detail(StatusCode::METHOD_NOT_ALLOWED) })
        .layer(DefaultBodyLimit::max(MOST_BYTES))
        .with_state(Arc::new(house))
}

type Posted = Result<Bytes, BytesRejection>;

async fn completions(State(house): Shared, headers: HeaderMap, body: Posted) -> Response {
    answered(Api::Completions, &house, &headers, body)
        .await
        .unwrap_or_else(IntoResponse::into_response)
}

async fn chat_completions(State(house): Shared, headers: HeaderMap, body: Posted) -> Response {
    answered(Api::Chat, &house, &headers, body)
        .await
        .unwrap_or_else(IntoResponse::into_response)
}

async fn answered(api: Api, house: &House, headers: &HeaderMap, body: Posted) -> Result<Response, ApiError> {
    let body = object(headers, body)?;
    let desk = &house.desk;
    let request = request::read(api, &body, headers, desk.house())?;
    drop(body);
    let head = Head::new(
        api,
        request.request_id.as_deref(),
        &request.model,
        desk.house(),
        house.numbers.next(),
        unix_seconds(),
    );
    let manner = stream::Manner {
        n: request.n,
        include_usage: request.include_usage,
        continuous_usage: request.continuous_usage,
        interval: request.stream_interval,
    };
    let streams = request.streams;
    let taken = answers::ask(desk, request).await?;
    if streams {
        let events = stream::events(api, head, taken, manner, desk.clone());
        let kind = [(header::CONTENT_TYPE, "text/event-stream; charset=utf-8")];
        return Ok((kind, Body::from_stream(events)).into_response());
    }
    let body = whole::write(api, &head, taken, manner.n, desk.house()).await?;
    Ok(json(body))
}

async fn tokenize_text(State(house): Shared, headers: HeaderMap, body: Posted) -> Result<Response, ApiError> {
    let body = object(&headers, body)?;
    tokenize::tokenize(&body, house.desk.house()).map(json)
}

async fn detokenize_ids(
    State(house): Shared,
    headers: HeaderMap,
    body: Posted,
) -> Result<Response, ApiError> {
    let body = object(&headers, body)?;
    tokenize::detokenize(&body, house.desk.house()).map(json)
}

/// The object that a request's body is.
fn object(headers: &HeaderMap, body: Posted) -> Result<Map<String, Value>, ApiError> {
    let kind = headers
        .get(header::CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    let media = kind.unwrap_or_default().split(';').next().unwrap_or_default();
    if !media.trim().eq_ignore_ascii_case("application/json") {
        let problem = "Unsupported Media Type: Only 'application/json' is allowed";
        return Err(ApiError::misshapen(&[("body".to_owned(), problem.to_owned())]));
    }
    let body = body.map_err(|rejection| ApiError {
        status: rejection.status(),
        kind: rejection.status().canonical_reason().unwrap_or("Bad Request"),
        message: format!(
            "{}; at most {} MiB are read",
            rejection.body_text(),
            MOST_BYTES >> 20
        ),
        param: None,
        retry_after: None,
    })?;
    fields::object(&body)
}

#[derive(Serialize)]
struct Models<'a> {
    object: &'static str,
    data: Vec<Model<'a>>,
}

#[derive(Serialize)]
struct Model<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    owned_by: &'static str,
    root: &'a str,
    parent: Option<&'a str>,
    max_model_len: u32,
}

async fn models(State(house): Shared) -> Response {
    let house = house.desk.house();
    let data = house.names.iter().map(|name| Model {
        id: &name.name,
        object: "model",
        created: house.created,
        owned_by: "plimsoll",
        root: name.parent.as_ref().unwrap_or(&name.answers),
        parent: name.parent.as_deref(),
        max_model_len: house.max_model_len,
    });
    let models = Models {
        object: "list",
        data: data.collect(),
    };
    json(serde_json::to_string(&models).expect("strings and numbers are JSON"))
}

async fn healthy() -> StatusCode {
    StatusCode::OK
}

/// `{"version": "0.33.0"}` for `vllm@0.33`.
async fn version(State(house): Shared) -> Response {
    let engine = &house.desk.house().engine;
    let release = engine
        .split_once('@')
        .map_or(engine.as_str(), |(_, release)| release);
    let patch = if release.split('.').count() == 2 { ".0" } else { "" };
    json(Value::from_iter([("version", format!("{release}{patch}"))]).to_string())
}

async fn metrics(State(house): Shared) -> Response {
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    (kind, house.desk.metrics().await).into_response()
}

fn json(body: impl Into<Body>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], body.into()).into_response()
}

/// What FastAPI says where there is nothing.
fn detail(status: StatusCode) -> Response {
    let reason = status.canonical_reason().unwrap_or_default();
    let body = json(Value::from_iter([("detail", reason)]).to_string());
    (status, body).into_response()
}

fn unix_seconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
