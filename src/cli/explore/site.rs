//! The page over HTTP: its files, and what it asks for.
//!
//! A page of another origin may not ask: what is posted has to say that it is JSON, which browsers ask leave for first and do not get, and at an address of this
//! machine alone the name in front of the port has to be one of this machine, so that no name of somebody else's may lead here.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::Serialize;
use serde_json::{Map, Value};
use tokio::sync::Semaphore;

use super::super::interrupt;
use super::super::page::web::FILES;
use super::super::page::{Asked, Explorer, Problem, Refused, Unanswered};

/// What a browser is told that a file is.
fn kind_of(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        _ => "text/javascript; charset=utf-8",
    }
}

/// The page loads nothing from elsewhere, and nothing but its own files runs in it.
const POLICY: &str =
    "default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Runs at a time; of searches there is one.
const RUNS: usize = 2;

struct Site {
    explorer: Explorer,
    runs: Arc<Semaphore>,
    searches: Arc<Semaphore>,
    /// Every name of a host leads here; else only this machine's.
    is_open: bool,
}

type Shared = State<Arc<Site>>;

/// Shows the page at a socket until Ctrl-C.
///
/// # Errors
/// If the system has no threads, or no use of the socket.
pub(super) fn show(socket: TcpListener, explorer: Explorer) -> io::Result<()> {
    const LOOK: Duration = Duration::from_millis(50);
    const GRACE: Duration = Duration::from_secs(1);
    let address = socket.local_addr()?;
    socket.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let ended = runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(socket)?;
        let stopped = async {
            while !interrupt::is_asked() {
                tokio::time::sleep(LOOK).await;
            }
        };
        let serving = axum::serve(listener, router(explorer, address)).with_graceful_shutdown(stopped);
        let overdue = async {
            while !interrupt::is_asked() {
                tokio::time::sleep(LOOK).await;
            }
            tokio::time::sleep(GRACE).await;
        };
        tokio::select! {
            ended = serving => ended,
            () = overdue => Ok(()),
        }
    });
    runtime.shutdown_background();
    ended
}

fn router(explorer: Explorer, address: SocketAddr) -> Router {
    let site = Arc::new(Site {
        explorer,
        runs: Arc::new(Semaphore::new(RUNS)),
        searches: Arc::new(Semaphore::new(1)),
        is_open: !address.ip().is_loopback(),
    });
    let mut router = Router::new()
        .route("/api/start", get(start))
        .route("/api/run", post(run))
        .route("/api/knee", post(search))
        .route("/api/explain", post(explain));
    for &(name, text) in FILES {
        let kind = kind_of(name);
        let place = match name {
            "index.html" => "/".to_owned(),
            _ => format!("/{name}"),
        };
        router = router.route(
            &place,
            get(move || async move { ([(header::CONTENT_TYPE, kind)], text) }),
        );
    }
    router
        .fallback(|| async { problem(StatusCode::NOT_FOUND, "there is nothing here") })
        .layer(middleware::from_fn_with_state(Arc::clone(&site), guard))
        .with_state(site)
}

/// Turns away whoever comes by another name, and says what a page may do.
async fn guard(State(site): Shared, request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST);
    let host = host.and_then(|host| host.to_str().ok()).unwrap_or_default();
    if !site.is_open && !is_of_this_machine(host) {
        let why = "this page is shown to this machine alone: open it by its address, or start it with another --host";
        return problem(StatusCode::FORBIDDEN, why);
    }
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Whether the name in front of the port is one of this machine's.
fn is_of_this_machine(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(rest),
        None => host.split(':').next().unwrap_or(host),
    };
    name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

async fn start(State(site): Shared) -> Response {
    json(StatusCode::OK, site.explorer.start())
}

type Posted = Result<Bytes, BytesRejection>;

async fn run(State(site): Shared, headers: HeaderMap, body: Posted) -> Response {
    let answer = |site: &Site, asked: &Asked, goes_on: &(dyn Fn() -> bool + Sync)| {
        site.explorer
            .run(asked, goes_on)
            .map(|ran| json(StatusCode::OK, &ran))
    };
    answered(site, |site| &site.runs, headers, body, answer).await
}

async fn search(State(site): Shared, headers: HeaderMap, body: Posted) -> Response {
    let answer = |site: &Site, asked: &Asked, goes_on: &(dyn Fn() -> bool + Sync)| {
        let found = site.explorer.knee(asked, goes_on);
        found.map(|found| json(StatusCode::OK, &found))
    };
    answered(site, |site| &site.searches, headers, body, answer).await
}

async fn explain(State(site): Shared, headers: HeaderMap, body: Posted) -> Response {
    let answer = |site: &Site, asked: &Asked, goes_on: &(dyn Fn() -> bool + Sync)| {
        let found = site.explorer.explain(asked, goes_on);
        found.map(|found| json(StatusCode::OK, &found))
    };
    answered(site, |site| &site.searches, headers, body, answer).await
}

/// Simulates what is asked for as long as it is told that anybody waits.
type Answering = fn(&Site, &Asked, &(dyn Fn() -> bool + Sync)) -> Result<Response, Unanswered>;

/// Set when nobody waits for an answer any more: whoever asked has hung up, and what would have answered is dropped.
struct Gone(Arc<AtomicBool>);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Simulates beside the threads that talk, one after the other.
async fn answered(
    site: Arc<Site>,
    turns: fn(&Site) -> &Arc<Semaphore>,
    headers: HeaderMap,
    body: Posted,
    answer: Answering,
) -> Response {
    let kind = headers.get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if !kind.starts_with("application/json") {
        return problem(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "only application/json is taken",
        );
    }
    let asked = match body {
        // A list would be read as the object's values in their order.
        Ok(body) => serde_json::from_slice::<Map<String, Value>>(&body)
            .and_then(|object| serde_json::from_value::<Asked>(Value::Object(object)))
            .map_err(|error| error.to_string()),
        Err(rejection) => Err(rejection.body_text()),
    };
    let asked = match asked {
        Ok(asked) => asked,
        Err(why) => return problem(StatusCode::BAD_REQUEST, &why),
    };
    let is_gone = Arc::new(AtomicBool::new(false));
    let _gone = Gone(Arc::clone(&is_gone));
    let turns = Arc::clone(turns(&site));
    let Ok(turn) = turns.acquire_owned().await else {
        return problem(StatusCode::SERVICE_UNAVAILABLE, "plimsoll explore is ending");
    };
    let at_work = Arc::clone(&site);
    // The turn is over when the work is, not when nobody waits for it any more.
    let simulate = move || {
        let _turn = turn;
        answer(&at_work, &asked, &|| !is_gone.load(Ordering::SeqCst))
    };
    match tokio::task::spawn_blocking(simulate).await {
        Ok(Ok(response)) => response,
        Ok(Err(unanswered)) => refused(unanswered),
        Err(_) => problem(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the simulation failed, which is a fault of plimsoll: its terminal says where",
        ),
    }
}

fn refused(unanswered: Unanswered) -> Response {
    match unanswered {
        Unanswered::Gone => problem(StatusCode::SERVICE_UNAVAILABLE, "plimsoll explore is ending"),
        Unanswered::Wrong { command, problems } => json(
            StatusCode::UNPROCESSABLE_ENTITY,
            &Refused {
                command: Some(command),
                problems,
            },
        ),
    }
}

fn problem(status: StatusCode, why: &str) -> Response {
    let problems = vec![Problem::new(why)];
    json(
        status,
        &Refused {
            command: None,
            problems,
        },
    )
}

fn json(status: StatusCode, answer: &impl Serialize) -> Response {
    let text = serde_json::to_string(answer).expect("figures and names are JSON");
    (status, [(header::CONTENT_TYPE, "application/json")], text).into_response()
}

#[cfg(test)]
mod tests {
    use super::is_of_this_machine;

    #[test]
    fn only_names_of_this_machine_lead_to_a_page_that_is_its_own() {
        for name in [
            "localhost",
            "localhost:8080",
            "127.0.0.1:1",
            "127.0.0.2",
            "[::1]:8080",
            "[::1]",
        ] {
            assert!(is_of_this_machine(name), "{name}");
        }
        for name in [
            "",
            "example.org",
            "127.0.0.1.example.org:80",
            "localhost.example.org",
            "[::2]:80",
        ] {
            assert!(!is_of_this_machine(name), "{name}");
        }
    }
}
