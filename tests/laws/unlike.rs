//! Replicas that are not alike behind one router: whose answer comes when, and what a router remembers of a refusal.

use std::collections::BTreeMap;

use plimsoll::cluster::ClusterSpec;
use plimsoll::cluster::router::{KvEvents, Policy};
use plimsoll::cost::linear::LinearCost;
use plimsoll::engine::EngineConfig;
use plimsoll::ids::RequestId;
use plimsoll::sim::{Fact, Frontend, Observer, Outcome, Pause, Server, Simulation, Until};
use plimsoll::units::Picos;
use plimsoll::workload::{Arrivals, Generator};

use crate::common::{ample_engine, plain};

/// When requests were sent and answered, and whether each went where its router's own measure was the least of all, by
/// the order of the two replicas where it was alike.
struct Post {
    sent: Vec<Picos>,
    answered: Vec<Picos>,
    /// What a request that has no token yet weighs, and one that has.
    weights: [u64; 2],
    burden: [u64; 2],
    /// Of equals the first is taken; else any may be.
    takes_the_first: bool,
    /// Replica and weight of those who were taken in and are not answered.
    open: BTreeMap<u64, (usize, u64)>,
}

impl Post {
    fn of(weights: [u64; 2]) -> Post {
        Post {
            sent: Vec::new(),
            answered: Vec::new(),
            weights,
            burden: [0; 2],
            takes_the_first: true,
            open: BTreeMap::new(),
        }
    }

    fn weigh(&mut self, id: RequestId, weight: u64) {
        let (replica, before) = self.open.get_mut(&id.0).expect("it was sent to somebody");
        self.burden[*replica] = self.burden[*replica] + weight - std::mem::replace(before, weight);
    }
}

impl Observer for Post {
    fn observe(&mut self, fact: &Fact<'_>) {
        match *fact {
            Fact::Arrived { request } => self.sent.push(request.arrival),
            Fact::Sent { id, replica, .. } => {
                let (chosen, other) = (replica.0 as usize, 1 - replica.0 as usize);
                let [own, others] = [chosen, other].map(|at| self.burden[at]);
                let is_any_of_equals = own == others && (chosen == 0 || !self.takes_the_first);
                assert!(own < others || is_any_of_equals, "{chosen} of {:?}", self.burden);
                self.open.insert(id.0, (replica.0 as usize, 0));
                self.weigh(id, self.weights[0]);
            }
            Fact::FirstToken { id, .. } => self.weigh(id, self.weights[1]),
            Fact::Ended(completion) => {
                self.answered.push(completion.end);
                if completion.outcome != Outcome::Rejected {
                    self.weigh(completion.id, 0);
                    self.open.remove(&completion.id.0);
                }
            }
            _ => {}
        }
    }
}

fn server(engine: EngineConfig, response_ms: u64) -> Server {
    Server {
        engine: engine.into(),
        cost: Box::new(LinearCost::new(0.006, 2e-5, 0.0)),
        frontend: Frontend {
            response_delay: Picos(response_ms * 1_000_000_000),
            ..Frontend::default()
        },
    }
}

/// A client in a loop sends when it has an answer: its k-th request after the first round goes out with the k-th answer,
/// though answers of a slow front end are overtaken by those of a fast one. Whoever answers late is as burdened as one who
/// computes for longer: a request is off its router's books when its client has the answer, and no sooner.
#[test]
fn answers_come_in_order_of_delivery() {
    let mut spec = plain(Arrivals::AllAtOnce, 100, 20, 2_000);
    spec.client.max_concurrency = Some(8);
    let servers = vec![server(ample_engine(), 900), server(ample_engine(), 0)];
    let cluster = ClusterSpec::of(2, Policy::LeastRequests);
    let mut simulation = Simulation::of_servers(servers, &cluster, 0, Generator::new(&spec, 0));
    let mut post = Post::of([1, 1]);
    assert_eq!(simulation.advance(Until::DRAINED, &mut post), Pause::Drained);
    assert!(post.answered.is_sorted());
    assert_eq!(post.sent[8..], post.answered[..post.sent.len() - 8]);
    assert!(post.open.is_empty());
}

/// A replica that refused some is not taken for one that is busy with them: every request goes where those that were taken
/// in and are not answered weigh least, whatever was refused in between.
#[test]
fn a_refused_request_burdens_nobody() {
    let shut_at = |most| EngineConfig {
        max_num_queued_reqs: Some(most),
        max_num_seqs: 1,
        ..ample_engine()
    };
    let mut spec = plain(Arrivals::AllAtOnce, 100, 20, 400);
    spec.arrivals = Arrivals::Poisson { request_rate: 12.0 };
    // Prompt and output tokens; prompts in sixteenths of a block and six full blocks, of which the prompt is done with the first token.
    let policies = [
        (Policy::LeastRequests, [1, 1]),
        (Policy::LeastTokens, [120, 120]),
        (Policy::KvEvents(KvEvents::default()), [100 + 6 * 16, 6 * 16]),
    ];
    for (policy, weights) in policies {
        let servers = vec![server(shut_at(1), 0), server(shut_at(1000), 0)];
        let cluster = ClusterSpec::of(2, policy);
        let mut simulation = Simulation::of_servers(servers, &cluster, 0, Generator::new(&spec, 0));
        let mut post = Post::of(weights);
        // RT-11: of replicas with indices of one size any.
        post.takes_the_first = !matches!(policy, Policy::KvEvents(_));
        assert_eq!(simulation.advance(Until::DRAINED, &mut post), Pause::Drained);
        assert_eq!(post.answered.len(), 400);
        assert!(post.open.is_empty());
        let refused = simulation.counts().queue_full;
        assert!(
            refused > 0,
            "{policy:?}: somebody was refused, or this says nothing"
        );
    }
}
