//! Errors as clients of vLLM know them: a status, and `{"error": {"message", "type", "param", "code"}}` as `create_error_response` and
//! `validation_exception_handler` of vLLM 0.33 write it.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::serve::desk::{Ending, House, Why};

/// An error that a client is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    /// The status of the response, and `code` in it.
    pub status: StatusCode,
    /// vLLM's `type`.
    pub kind: &'static str,
    /// A sentence for people.
    pub message: String,
    /// The parameter that is to blame.
    pub param: Option<String>,
    /// Seconds after which it may come again.
    pub retry_after: Option<u64>,
}

#[derive(Serialize)]
struct Body<'a> {
    error: Info<'a>,
}

#[derive(Serialize)]
struct Info<'a> {
    message: &'a str,
    r#type: &'a str,
    param: Option<&'a str>,
    code: u16,
}

impl ApiError {
    /// 400: what is asked for cannot be.
    pub fn refused(message: impl Into<String>, param: Option<&str>) -> ApiError {
        ApiError {
            status: StatusCode::BAD_REQUEST,
            kind: "BadRequestError",
            message: message.into(),
            param: param.map(str::to_owned),
            retry_after: None,
        }
    }

    /// 400: the request is not shaped as a request; each problem with the path of its field.
    ///
    /// Panics without a problem.
    pub fn misshapen(problems: &[(String, String)]) -> ApiError {
        const MOST_TOLD: usize = 10;
        let noun = if problems.len() == 1 { "error" } else { "errors" };
        let mut message = format!("{} validation {noun}:", problems.len());
        for (param, problem) in problems.iter().take(MOST_TOLD) {
            message.push_str(&format!("\n  {param}: {problem}"));
        }
        if problems.len() > MOST_TOLD {
            message.push_str(&format!("\n  ...and {} more {noun}", problems.len() - MOST_TOLD));
        }
        ApiError {
            status: StatusCode::BAD_REQUEST,
            kind: "Bad Request",
            message,
            param: Some(problems[0].0.clone()),
            retry_after: None,
        }
    }

    /// 404: no such model.
    pub fn no_model(name: &str, house: &House) -> ApiError {
        ApiError {
            status: StatusCode::NOT_FOUND,
            kind: "NotFoundError",
            message: format!(
                "The model `{name}` does not exist. Valid aliases: {}.",
                house
                    .names
                    .iter()
                    .map(|name| name.name.as_str())
                    .collect::<Vec<_>>()
                    .join(", ")
            ),
            param: Some("model".to_owned()),
            retry_after: None,
        }
    }

    /// 400: the prompt alone is longer than the context.
    pub fn too_long(tokens: u64, house: &House) -> ApiError {
        let message = format!(
            "This model's maximum context length is {} tokens. However, your prompt contains {tokens} input tokens, which exceeds this \
             limit even without any output tokens. Please reduce the length of the input prompt.",
            house.max_model_len
        );
        ApiError::refused(message, Some("input_tokens"))
    }

    /// What a request that ended without its answer is told; `None` where it has one.
    pub fn of_ending(ending: &Ending, house: &House) -> Option<ApiError> {
        let (status, kind, message) = match ending.why {
            Why::Stop | Why::Length => return None,
            Why::TooLong if ending.prompt_tokens >= house.max_model_len => {
                return Some(ApiError::too_long(ending.prompt_tokens.into(), house));
            }
            Why::TooLong => {
                let message = format!(
                    "The prompt contains {} tokens, which can never fit into the KV cache of this server. Please reduce the length of the \
                     input prompt.",
                    ending.prompt_tokens
                );
                return Some(ApiError::refused(message, Some("input_tokens")));
            }
            Why::Full => (
                StatusCode::SERVICE_UNAVAILABLE,
                "Service Unavailable",
                "The engine is currently busy and cannot accept new requests. Please try again later or on a different instance.",
            ),
            Why::RateLimited => (
                StatusCode::TOO_MANY_REQUESTS,
                "Too Many Requests",
                "Requests come faster than this server admits them. Please try again later.",
            ),
            Why::Failed => (
                StatusCode::INTERNAL_SERVER_ERROR,
                "InternalServerError",
                "The replica that had the request failed.",
            ),
            Why::Closed => return Some(ApiError::closed()),
        };
        Some(ApiError {
            status,
            kind,
            message: message.to_owned(),
            param: None,
            retry_after: ending.retry_after,
        })
    }

    /// 503: nobody simulates any more.
    pub fn closed() -> ApiError {
        ApiError {
            status: StatusCode::SERVICE_UNAVAILABLE,
            kind: "ServiceUnavailableError",
            message: "The server is shutting down.".to_owned(),
            param: None,
            retry_after: None,
        }
    }

    /// The body.
    pub fn json(&self) -> String {
        let info = Info {
            message: &self.message,
            r#type: self.kind,
            param: self.param.as_deref(),
            code: self.status.as_u16(),
        };
        serde_json::to_string(&Body { error: info }).expect("strings and numbers are JSON")
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let kind = [(header::CONTENT_TYPE, "application/json")];
        let after = self
            .retry_after
            .map(|seconds| [(header::RETRY_AFTER, seconds.to_string())]);
        match after {
            Some(after) => (self.status, kind, after, self.json()).into_response(),
            None => (self.status, kind, self.json()).into_response(),
        }
    }
}
