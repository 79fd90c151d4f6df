//! Subscriptions and schedules: findings with positions, defaults and round trips through YAML.

#![expect(clippy::expect_used, clippy::panic, reason = "a test helper fails by panicking")]

use std::fmt::Write as _;

use noetl_playbook::model::{
    ActivationMode, CircuitBreaker, DirectiveControl, FetchConfig, HeaderRules, HealthProbe,
    MessageOrdering, MessageSource, MessageVerifier, MisfireHandling, OnRecovery, OverlapPolicy,
    PayloadFrom, PushIngress, Schedule, ScheduleTiming, SourceKind, SourceMode, SpoolMode,
    SpoolRetention, SpoolStore, Subscription, TracePropagation,
};
use noetl_playbook::timing::TimeZone;
use noetl_playbook::{CheckOptions, Document, SchemaKind, check, json_schema, to_yaml};
use noetl_types::{Millis, Timestamp};

/// A document whose `spec` starts in line 5 with an indentation of two.
fn build_document(kind: &str, spec: &str) -> String {
    let mut text =
        format!("apiVersion: noetl.io/v1\nkind: {kind}\nmetadata: {{ name: nightly }}\nspec:\n");
    for line in spec.lines() {
        writeln!(text, "  {line}").expect("writing to a string cannot fail");
    }
    text
}

fn parse_clean(text: &str) -> Document {
    let checked = check(text, &CheckOptions::default());
    assert_eq!(checked.diagnostics, [], "{text}");
    checked.document.expect("a document without findings")
}

fn parse_schedule(spec: &str) -> Schedule {
    match parse_clean(&build_document("Schedule", spec)) {
        Document::Schedule(schedule) => *schedule,
        other => panic!("no schedule: {other:?}"),
    }
}

fn parse_subscription(spec: &str) -> Subscription {
    match parse_clean(&build_document("Subscription", spec)) {
        Document::Subscription(subscription) => *subscription,
        other => panic!("no subscription: {other:?}"),
    }
}

/// Findings as `code@line:column message (hint)`, one per line.
fn list_findings(text: &str) -> String {
    let mut list = String::new();
    for diagnostic in check(text, &CheckOptions::default()).diagnostics {
        let hint = diagnostic.hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
        writeln!(
            list,
            "  {}@{}:{} {}{hint}",
            diagnostic.code, diagnostic.line, diagnostic.column, diagnostic.message
        )
        .expect("writing to a string cannot fail");
    }
    list
}

/// Each document with its findings, for a snapshot.
fn findings_report(kind: &str, specs: &[&str]) -> String {
    specs.iter().fold(String::new(), |mut report, spec| {
        let text = build_document(kind, spec);
        let findings = list_findings(&text);
        assert!(!findings.is_empty(), "nothing is wrong with {spec}");
        let body = text.split_once("spec:\n").map_or("", |(_, body)| body);
        writeln!(report, "{body}{findings}").expect("writing to a string cannot fail");
        report
    })
}

const NATS_SOURCE: &str = "source: nats\nstream: shop\nconsumer: orders\n";
const DISPATCH: &str = "dispatch: { playbook: shop/order }\n";

fn nats_spec(more: &str) -> String {
    format!("{NATS_SOURCE}{DISPATCH}{more}")
}

#[test]
fn minimal_schedule_has_defaults() {
    let schedule = parse_schedule("cron: 0 2 * * *\nplaybook: etl/nightly");
    assert_eq!(&**schedule.path(), "nightly");
    let spec = &schedule.spec;
    assert!(
        matches!(&spec.timing, ScheduleTiming::Cron(crons) if crons.len() == 1 && crons[0].as_str() == "0 2 * * *")
    );
    assert_eq!(spec.timezone, TimeZone::UTC);
    assert_eq!(*spec.playbook, *"etl/nightly");
    assert_eq!(spec.overlap, OverlapPolicy::Skip);
    assert_eq!(spec.misfire, MisfireHandling::default());
    assert!(spec.enabled);
    assert_eq!(spec.jitter, Millis::ZERO);
    assert!(spec.payload.is_empty());
    assert_eq!((spec.version, spec.start, spec.end, spec.priority), (None, None, None, None));
    assert!(spec.concurrency.is_none());
}

#[test]
fn parses_full_schedule() {
    let schedule = parse_schedule(
        "cron: [\"@daily\", \"30 0 7 * * SUN\"]\n\
         timezone: America/New_York\n\
         playbook: etl/nightly\n\
         version: 7\n\
         payload: { day: \"{{ schedule.scheduled_at }}\", full: false }\n\
         overlap: cancel_previous\n\
         misfire: { policy: run_all, grace: 1h }\n\
         enabled: false\n\
         start: \"2026-01-01T00:00:00+01:00\"\n\
         end: 2027-01-01T00:00:00Z\n\
         jitter: 90s\n\
         concurrency: { key: loads }\n\
         priority: -100",
    );
    let spec = &schedule.spec;
    assert!(matches!(&spec.timing, ScheduleTiming::Cron(crons) if crons.len() == 2));
    assert_eq!(spec.timezone.as_str(), "America/New_York");
    assert_eq!(spec.version, Some(7));
    assert!(spec.payload.get("day").is_some_and(|field| !field.value.is_const()));
    assert_eq!(spec.misfire.grace, Some(Millis::from_hours(1)));
    assert_eq!(spec.start, Timestamp::parse("2025-12-31T23:00:00Z").ok());
    assert_eq!(spec.concurrency.as_ref().map(|concurrency| *concurrency.limit), Some(1));
    assert_eq!(spec.priority.map(noetl_types::limits::Priority::get), Some(-100));
}

#[test]
fn reports_mistakes_in_schedules() {
    let report = findings_report(
        "Schedule",
        &[
            "{}",
            "5",
            "playbook: etl/nightly",
            "cron: 0 2 * * *",
            "cron: 61 2 * * *\nplaybook: etl/nightly",
            "cron: [\"0 2 * * *\", 5, \"* * *\"]\nplaybook: etl/nightly",
            "cron: []\nplaybook: etl/nightly",
            "cron: { minute: 5 }\nplaybook: etl/nightly",
            "every: 15m\ncron: 0 2 * * *\nplaybook: etl/nightly",
            "every: often\nplaybook: etl/nightly",
            "every: 0\nplaybook: etl/nightly",
            "every: 1500ms\nplaybook: etl/nightly",
            "every: 400d\nplaybook: etl/nightly",
            "every: 15m\ntimezone: Europe/Berlin\nplaybook: etl/nightly",
            "cron: 0 2 * * *\ntimezone: Europe/Berln\nplaybook: etl/nightly",
            "cron: 0 2 * * *\ntimezone: New York\nplaybook: etl/nightly",
            "cron: 0 2 * * *\ntimezone: CEST\nplaybook: etl/nightly",
            "cron: 0 2 * * *\nplaybook: /etl/nightly",
            "cron: 0 2 * * *\nplaybook: \"{{ which }}\"",
            "cron: 0 2 * * *\nplaybook: \"\"",
            "cron: 0 2 * * *\nplaybook: [etl/nightly]",
            "cron: 0 2 * * *\nplaybook: etl/nightly\nversion: 0",
            "cron: 0 2 * * *\nplaybook: etl/nightly\nversion: latest",
            "cron: 0 2 * * *\nplaybook: etl/nightly\npayload: [1]",
            "cron: 0 2 * * *\nplaybook: etl/nightly\npayload: { day: \"{{ a. }}\" }",
            "cron: 0 2 * * *\nplaybook: etl/nightly\noverlap: skipp",
            "cron: 0 2 * * *\nplaybook: etl/nightly\nmisfire: skip",
            "cron: 0 2 * * *\nplaybook: etl/nightly\nmisfire: { policy: run_some, grace: soon, late: 1 }",
            "cron: 0 2 * * *\nplaybook: etl/nightly\nmisfire: { grace: 1.5 }",
            "cron: 0 2 * * *\nplaybook: etl/nightly\nenabled: yes",
            "cron: 0 2 * * *\nplaybook: etl/nightly\nstart: 2026-01-01",
            "cron: 0 2 * * *\nplaybook: etl/nightly\nstart: 2026-01-01T00:00:00",
            "cron: 0 2 * * *\nplaybook: etl/nightly\nend: 2026-02-30T00:00:00Z",
            "cron: 0 2 * * *\nplaybook: etl/nightly\nend: 2026-01-01T00:00:00Z\nstart: 2026-01-01T01:00:00+01:00",
            "cron: 0 2 * * *\nplaybook: etl/nightly\njitter: 25h",
            "every: 5m\nplaybook: etl/nightly\njitter: 5m",
            "cron: 0 2 * * *\nplaybook: etl/nightly\nconcurrency: { limit: 0 }",
            "cron: 0 2 * * *\nplaybook: etl/nightly\npriority: 101",
            "cron: 0 2 * * *\nplaybook: etl/nightly\npriority: high\ntime_zone: UTC",
        ],
    );
    insta::assert_snapshot!(report);
}

#[test]
fn minimal_subscription_has_defaults() {
    let subscription = parse_subscription(&nats_spec(""));
    let spec = &subscription.spec;
    assert_eq!(
        spec.source,
        MessageSource::Nats { stream: "shop".into(), consumer: "orders".into() }
    );
    assert_eq!(spec.source.mode(), SourceMode::Pull);
    assert_eq!(spec.activation, ActivationMode::Continuous);
    assert_eq!(spec.runtime, FetchConfig::default());
    assert_eq!(spec.runtime.batch, 100);
    assert_eq!(spec.poll_timeout(), Millis::from_secs(1));
    assert_eq!(spec.dispatch.payload_from, PayloadFrom::Json);
    assert!(!spec.dispatch.batch_dispatch);
    assert!(!spec.dedup.enabled);
    assert_eq!(spec.dedup.window.get(), 300);
    assert_eq!(spec.headers, HeaderRules::default());
    assert_eq!(&*spec.headers.passthrough, "data");
    assert_eq!(spec.headers.trace.propagate, TracePropagation::None);
    assert!(spec.spool.is_none());
}

#[test]
fn minimal_spool_has_defaults() {
    let subscription = parse_subscription(&nats_spec(
        "spool: { mode: hybrid, backend: local_disk, path: /var/spool }",
    ));
    let spool = subscription.spec.spool.expect("a spool");
    assert_eq!(spool.mode, SpoolMode::Hybrid);
    assert_eq!(spool.store, SpoolStore::LocalDisk { path: "/var/spool".into() });
    assert_eq!(spool.ordering, MessageOrdering::PerKey);
    assert_eq!(spool.circuit, CircuitBreaker::default());
    assert_eq!(spool.circuit.trip_after, 5);
    assert_eq!(spool.circuit.probe_after, Millis::from_secs(30));
    assert_eq!(spool.circuit.probe_interval, Millis::from_secs(5));
    assert_eq!(spool.retention, SpoolRetention::default());
    assert_eq!(spool.retention.max_bytes, noetl_types::ByteSize::from_gib(1));
    assert_eq!(spool.drain.max_replay_attempts, 5);
    assert_eq!(spool.drain.on_recovery, OnRecovery::OrderedThenLive);
    assert_eq!(spool.hybrid_escalate_after, Millis::from_secs(30));
}

#[test]
fn disabled_spool_equals_no_spool() {
    assert_eq!(
        parse_subscription(&nats_spec("spool: { mode: off }")),
        parse_subscription(&nats_spec(""))
    );
    let disabled = "spool: { mode: off, backend: s3, bucket: later, ordering: global }";
    assert_eq!(parse_subscription(&nats_spec(disabled)), parse_subscription(&nats_spec("")));
}

/// Every key of the format, so that the round trip covers all of them.
const FULL_SUBSCRIPTIONS: [&str; 5] = [
    "source: nats\n\
     mode: pull\n\
     activation: scheduled\n\
     auth: nats_shop\n\
     url: nats://nats:4222\n\
     user: shop\n\
     stream: shop\n\
     consumer: orders\n\
     runtime: { target: worker, pool: ingest, batch: 200, timeout_ms: 2500 }\n\
     dispatch:\n\
    \x20 playbook: shop/order\n\
    \x20 payload_from: message.attributes\n\
    \x20 execution_pool: shop\n\
    \x20 batch_dispatch: true\n\
    \x20 batch_max: 1000\n\
     dedup: { enabled: true, window_secs: 86400, key: \"{{ message.headers.order }}\" }\n\
     limits: { max_in_flight: 500, max_dispatch_per_sec: 100 }\n\
     headers:\n\
    \x20 normalize: true\n\
    \x20 directives:\n\
    \x20   - { header: X-Playbook, controls: dispatch.playbook, allowed: [shop/order, shop/express], map: { fast: shop/express } }\n\
    \x20   - { header: X-Pool, controls: dispatch.execution_pool, allowed: shop }\n\
    \x20   - { header: X-Urgency, controls: priority, map: { high: 50, low: -20 } }\n\
    \x20   - { header: X-Order, controls: idempotency_key }\n\
    \x20   - { header: Content-Type, controls: content_type, allowed: [application/json] }\n\
    \x20   - { header: X-Schema, controls: schema_hint, map: { v1: order, v2: 2 } }\n\
    \x20 trace: { propagate: w3c, baggage_allowlist: [tenant] }\n\
    \x20 passthrough: headers",
    "source: kafka\n\
     brokers: [kafka-1:9092, kafka-2:9092]\n\
     topic: values\n\
     group: noetl\n\
     dispatch: { playbook: plant/store, payload_from: message.body }\n\
     spool:\n\
    \x20 mode: hybrid\n\
    \x20 backend: nats_object\n\
    \x20 bucket: values\n\
    \x20 credential: nats_spool\n\
    \x20 ordering: per_key\n\
    \x20 ordering_key: device\n\
    \x20 circuit:\n\
    \x20   trip_after: 3\n\
    \x20   probe_after_ms: 1000\n\
    \x20   probe_interval_ms: 250\n\
    \x20   downstream:\n\
    \x20     - { name: store, type: http, target: \"https://store/health\" }\n\
    \x20     - { name: db, type: tcp, target: \"db:5432\" }\n\
    \x20     - { name: bus, type: nats, target: \"nats://nats:4222\" }\n\
    \x20     - { name: rest, type: passive }\n\
    \x20 retention: { max_age_hours: 48, max_bytes: 512MiB, on_full: drop_to_dlq }\n\
    \x20 drain: { rate_per_sec: 20, max_replay_attempts: 3, on_recovery: interleave }\n\
    \x20 hybrid_escalate_after_ms: 5000",
    "source: pubsub\n\
     subscription: projects/acme/subscriptions/audit\n\
     endpoint: http://localhost:8085\n\
     dispatch: { playbook: audit/store }",
    "source: pubsub\n\
     mode: push\n\
     subscription: projects/acme/subscriptions/audit\n\
     ingress:\n\
    \x20 gateway_path: /hooks/audit\n\
    \x20 verify: { type: pubsub_oidc, audience: \"https://noetl/hooks/audit\", service_account: push@acme }\n\
     dispatch: { playbook: audit/store }",
    "source: webhook\n\
     ingress:\n\
    \x20 gateway_path: /hooks/shop\n\
    \x20 verify: { type: hmac_sha256, header: X-Signature, secret: shop_hook, timestamp_header: X-Time, tolerance_secs: 60 }\n\
     dispatch: { playbook: shop/order }",
];

#[test]
fn parses_full_subscriptions() {
    let [nats, kafka, pubsub, push, webhook] = FULL_SUBSCRIPTIONS.map(parse_subscription);
    assert_eq!(nats.spec.poll_timeout(), Millis::from_ms(2500));
    assert_eq!(nats.spec.connection.auth.as_ref().map(|auth| &***auth), Some("nats_shop"));
    let controls: Vec<_> =
        nats.spec.headers.directives.iter().map(|directive| directive.controls).collect();
    let all: Vec<_> = DirectiveControl::WORDS
        .iter()
        .filter_map(|keyword| DirectiveControl::parse(keyword))
        .collect();
    assert_eq!(controls, all);
    let playbooks: Vec<_> = nats.playbooks().map(|path| path.value.to_owned()).collect();
    assert_eq!(playbooks, ["shop/order", "shop/order", "shop/express"]);

    let spool = kafka.spec.spool.as_ref().expect("a spool");
    assert_eq!(spool.circuit.downstream.len(), 4);
    assert_eq!(spool.circuit.downstream[3].probe, HealthProbe::Passive);
    assert_eq!(spool.retention.max_age, Some(Millis::from_days(2)));

    assert_eq!(pubsub.spec.source.mode(), SourceMode::Pull);
    assert_eq!(pubsub.spec.poll_timeout(), Millis::from_secs(5));
    assert_eq!(push.spec.source.mode(), SourceMode::Push);
    assert_eq!(push.spec.source.ingress().map(PushIngress::listener_name), Some("audit"));
    assert_eq!(webhook.spec.source.kind(), SourceKind::Webhook);
    let ingress = webhook.spec.source.ingress().expect("an address");
    let MessageVerifier::HmacSha256 { tolerance, .. } = &ingress.verify else {
        panic!("{ingress:?}")
    };
    assert_eq!(*tolerance, Millis::from_secs(60));
}

#[test]
fn printed_document_parses_to_same_model() {
    let short = nats_spec("");
    let stores =
        ["nats_object, bucket: b", "local_disk, path: /p", "gcs, bucket: b", "s3, bucket: b"];
    let spools = stores.map(|store| {
        nats_spec(&format!("spool: {{ mode: buffer_and_ack, ordering: none, backend: {store} }}"))
    });
    let bearer =
        "source: webhook\ningress: { gateway_path: /a/b, verify: { type: bearer, secret: s } }\n";
    let bearer = format!("{bearer}{DISPATCH}");
    let kafka = format!("source: kafka\nauth: plant\ntopic: t\ngroup: g\n{DISPATCH}");
    let subscriptions = FULL_SUBSCRIPTIONS
        .iter()
        .copied()
        .chain(spools.iter().map(String::as_str))
        .chain([&*short, &*bearer, &*kafka]);
    let schedules = [
        "cron: 0 2 * * *\nplaybook: etl/nightly",
        "every: 15m\nplaybook: etl/nightly\nmisfire: { grace: 0 }",
        "cron: [\"@daily\", \"30 0 7 * * SUN\"]\ntimezone: Asia/Tokyo\nplaybook: etl/nightly\nversion: 2\n\
         payload: { day: \"{{ schedule.scheduled_at }}\", n: 1.5 }\noverlap: queue\n\
         misfire: { policy: skip, grace: 10m }\nenabled: false\nstart: 2026-01-01T00:00:00.5Z\n\
         end: 2027-01-01T00:00:00Z\njitter: 90s\nconcurrency: { key: \"{{ day }}\", limit: 3 }\npriority: 20",
    ];
    let texts = subscriptions
        .map(|spec| build_document("Subscription", spec))
        .chain(schedules.into_iter().map(|spec| build_document("Schedule", spec)));
    for text in texts {
        let model = parse_clean(&text);
        let printed = to_yaml(&model).expect("a document that is printed");
        assert_eq!(parse_clean(&printed), model, "{printed}");
    }
}

#[test]
fn printing_omits_defaults() {
    let printed = to_yaml(&parse_clean(&build_document("Subscription", FULL_SUBSCRIPTIONS[1])))
        .expect("yaml");
    insta::assert_snapshot!("printed_subscription", printed);
    let short = to_yaml(&parse_clean(&build_document(
        "Schedule",
        "every: 900\nplaybook: etl/nightly\noverlap: skip",
    )))
    .expect("yaml");
    insta::assert_snapshot!("printed_schedule", short);
}

#[test]
fn reports_mistakes_in_sources() {
    let nats = |more: &str| format!("source: nats\n{more}{DISPATCH}");
    let specs = [
        "{}".to_owned(),
        format!("source: nts\ningress: {{ path: /x }}\n{DISPATCH}"),
        "source: nats".to_owned(),
        nats("stream: \"\"\nconsumer: \"{{ name }}\"\n"),
        nats("stream: [a]\nconsumer: c\n"),
        nats("mode: push\nstream: s\nconsumer: c\n"),
        nats(
            "mode: push\nstream: s\nconsumer: c\ningress: { gateway_path: /x, verify: { type: bearer, secret: s } }\n",
        ),
        nats("mode: pul\nstream: s\nconsumer: c\n"),
        nats(
            "stream: s\nconsumer: c\ntopic: t\ningress: { gateway_path: /x, verify: { type: bearer, secret: s } }\n",
        ),
        format!("source: kafka\n{DISPATCH}"),
        format!("source: kafka\nbrokers: []\ntopic: t\ngroup: g\n{DISPATCH}"),
        format!("source: kafka\nbrokers: [1, \"\"]\ntopic: t\ngroup: g\n{DISPATCH}"),
        format!("source: pubsub\n{DISPATCH}"),
        format!("source: pubsub\nmode: push\n{DISPATCH}"),
        format!("mode: pull\nsource: webhook\n{DISPATCH}"),
        format!("source: webhook\ningress: {{ gateway_path: /x }}\n{DISPATCH}"),
        format!("source: webhook\ningress: []\n{DISPATCH}"),
    ];
    let ingress = |ingress: &str| format!("source: webhook\ningress: {{ {ingress} }}\n{DISPATCH}");
    let verify = |verify: &str| ingress(&format!("gateway_path: /hooks/x, verify: {{ {verify} }}"));
    let verifiers = [
        ingress("verify: { type: bearer, secret: s }"),
        ingress("gateway_path: hooks/x, verify: { type: bearer, secret: s }"),
        ingress("gateway_path: /hooks/, verify: { type: bearer, secret: s }"),
        ingress("gateway_path: /hooks/x y, verify: { type: bearer, secret: s }"),
        ingress("gateway_path: /hooks/x, verifi: { type: bearer, secret: s }"),
        verify("type: none"),
        verify("type: hmac"),
        verify("secret: s"),
        verify("type: hmac_sha256"),
        verify("type: hmac_sha256, header: X Sig, secret: s, tolerance_secs: 0"),
        verify("type: bearer, secret: s, audience: a, tolerence_secs: 5"),
        verify("type: pubsub_oidc, header: h"),
        format!("{}runtime: {{ batch: 5, timeout_ms: 100 }}\n", verify("type: bearer, secret: s")),
    ];
    let specs: Vec<&str> = specs.iter().chain(&verifiers).map(String::as_str).collect();
    insta::assert_snapshot!(findings_report("Subscription", &specs));
}

#[test]
fn reports_mistakes_in_subscriptions() {
    let specs = [
        "activation: always",
        "auth: 5\nurl: \"{{ url }}\"\nuser: []",
        "runtime: { pool: a.b, batch: 0, timeout_ms: 5001, bach: 5 }",
        "runtime: fast",
        "dedup: { enabled: true, window_secs: 0, key: order_id }",
        "dedup: { window_secs: 60, key: \"{{ message.id }}\" }",
        "dedup: { enabled: true, key: \"{{ message. }}\" }",
        "dedup: { enabled: true, window_secs: 2592001 }",
        "limits: { max_in_flight: 0, max_dispatch_per_sec: 1.5, max: 1 }",
        "headers: { normalize: yes, passthrough: \"\", trace: { propagate: b3, baggage_allowlist: [a] } }",
        "headers: { directives: {} }",
        "headers: { directives: [x, { header: X }, { controls: priority }] }",
        "headers: { directives: [{ header: X, controls: dispatch.playbook }] }",
        "headers: { directives: [{ header: X, controls: dispatch.playbook, allowed: [a//b, 5] }] }",
        "headers: { directives: [{ header: X, controls: dispatch.execution_pool, allowed: [] }] }",
        "headers: { directives: [{ header: X, controls: dispatch.execution_pool, allowed: [a b] }] }",
        "headers: { directives: [{ header: X, controls: priority, map: { high: 900, low: deep } }] }",
        "headers: { directives: [{ header: X, controls: priority, map: {} }] }",
        "headers: { directives: [{ header: X, controls: content_type, map: { a: [], b: null }, alowed: [] }] }",
        "headers: { directives: [{ header: X, controls: content_type, map: [] }] }",
        "limit: {}",
    ];
    let mut specs: Vec<String> = specs.iter().map(|more| nats_spec(more)).collect();
    for dispatch in [
        "{}",
        "{ playbook: \"a#b\", payload_from: body, execution_pool: \"\", batch_dispatch: 1, batch_max: 1001 }",
        "{ playbook: a, batch_max: 10 }",
        "a/b",
    ] {
        specs.push(format!("{NATS_SOURCE}dispatch: {dispatch}"));
    }
    let specs: Vec<&str> = specs.iter().map(String::as_str).collect();
    insta::assert_snapshot!(findings_report("Subscription", &specs));
}

#[test]
fn reports_mistakes_in_spools() {
    let on = "mode: buffer_and_ack, backend: s3, bucket: b";
    let specs = [
        "spool: {}".to_owned(),
        "spool: { mode: on }".to_owned(),
        "spool: { mode: of, backend: s3, bucket: b }".to_owned(),
        "spool: { mode: 5, backend: s4 }".to_owned(),
        "spool: { mode: off, backend: s4, drain: { rate_per_sec: 0 } }".to_owned(),
        "spool: { mode: hybrid, backend: local_disk, bucket: b }".to_owned(),
        format!("spool: {{ {on}, hybrid_escalate_after_ms: 10, ordering: none, ordering_key: k }}"),
        format!("spool: {{ {on}, drain: {{ on_recovery: interleave }}, ordering: global }}"),
        format!(
            "spool: {{ {on}, retention: {{ max_bytes: 0, max_age_hours: 0, on_full: panic }} }}"
        ),
        format!(
            "spool: {{ {on}, retention: {{ max_bytes: lots }}, drain: {{ max_replay_attempts: 0 }} }}"
        ),
        format!(
            "spool: {{ {on}, circuit: {{ trip_after: 0, probe_after_ms: 0, probe_interval_ms: 5s }} }}"
        ),
        format!(
            "spool: {{ {on}, circuit: {{ downstream: [{{ type: http }}, {{ name: a, type: ftp, target: t }}] }} }}"
        ),
        format!(
            "spool: {{ {on}, circuit: {{ downstream: [{{ name: a, type: passive, target: t, port: 1 }}] }} }}"
        ),
        format!("spool: {{ {on}, bukket: c }}"),
    ];
    let specs: Vec<String> = specs.iter().map(|more| nats_spec(more)).collect();
    let specs: Vec<&str> = specs.iter().map(String::as_str).collect();
    insta::assert_snapshot!(findings_report("Subscription", &specs));
}

#[test]
fn reports_mistakes_in_envelope() {
    for (text, expected) in [
        ("kind: Schedule\nspec: {}", "NP005@1:1 NP005@1:1 NP005@2:7 NP005@2:7"),
        (
            "apiVersion: noetl.io/v2\nkind: Schedule\nmetadata: { name: a }\nspec: { every: 5m, playbook: a }",
            "NP003@1:13",
        ),
        (
            "apiVersion: noetl.io/v1\nkind: Subscription\nmetadata: {}\nspec: []\nextra: 1",
            "NP005@3:11 NP006@4:7 NP010@5:1",
        ),
    ] {
        let findings: Vec<String> = check(text, &CheckOptions::default())
            .diagnostics
            .iter()
            .map(|diagnostic| {
                format!("{}@{}:{}", diagnostic.code, diagnostic.line, diagnostic.column)
            })
            .collect();
        assert_eq!(findings.join(" "), expected, "{text}");
    }
}

/// Extensions that other installations do not support are reported if `portable` is set.
#[test]
fn portable_check_reports_extensions() {
    let options = CheckOptions { portable: true, ..CheckOptions::default() };
    let list_positions = |text: &str| -> Vec<String> {
        let diagnostics = check(text, &options).diagnostics;
        diagnostics
            .iter()
            .map(|diagnostic| {
                format!("{}@{}:{}", diagnostic.code, diagnostic.line, diagnostic.column)
            })
            .collect()
    };
    assert_eq!(
        list_positions(&build_document("Schedule", "every: 5m\nplaybook: a\npriority: 5")),
        ["NP020@2:7"]
    );
    assert_eq!(
        list_positions(&build_document("Subscription", FULL_SUBSCRIPTIONS[0])),
        ["NP020@20:47"]
    );
    assert_eq!(
        list_positions(&build_document("Subscription", FULL_SUBSCRIPTIONS[4])),
        ["NP020@8:74", "NP020@8:100"]
    );
    assert_eq!(list_positions(&build_document("Subscription", FULL_SUBSCRIPTIONS[1])), [""; 0]);
}

fn matches_schema(schema: &jsonschema::Validator, text: &str) -> bool {
    let json = noetl_playbook::to_json(text).expect("YAML");
    schema.is_valid(&serde_json::to_value(&json).expect("JSON"))
}

#[test]
fn schemas_accept_valid_and_reject_invalid_documents() {
    let subscription =
        jsonschema::validator_for(&json_schema(SchemaKind::Subscription)).expect("a schema");
    for spec in FULL_SUBSCRIPTIONS {
        let text = build_document("Subscription", spec);
        assert!(matches_schema(&subscription, &text), "{text}");
        let printed = to_yaml(&parse_clean(&text)).expect("yaml");
        assert!(matches_schema(&subscription, &printed), "{printed}");
    }
    assert!(matches_schema(
        &subscription,
        &build_document("Subscription", &nats_spec("spool: { mode: off }"))
    ));
    for more in [
        "limit: {}",
        "dedup: { window_secs: 0 }",
        "spool: { mode: on }",
        "spool: { mode: off, bukket: b }",
    ] {
        assert!(
            !matches_schema(&subscription, &build_document("Subscription", &nats_spec(more))),
            "{more}"
        );
    }
    let schedule = jsonschema::validator_for(&json_schema(SchemaKind::Schedule)).expect("a schema");
    for spec in [
        "cron: 0 2 * * *\nplaybook: a",
        "every: 5m\nplaybook: a",
        "cron: [\"@daily\"]\nplaybook: a\njitter: 5",
    ] {
        assert!(matches_schema(&schedule, &build_document("Schedule", spec)), "{spec}");
    }
    for spec in [
        "playbook: a",
        "every: 5m\ncron: \"@daily\"\nplaybook: a",
        "cron: []\nplaybook: a",
        "every: 5m",
    ] {
        assert!(!matches_schema(&schedule, &build_document("Schedule", spec)), "{spec}");
    }
}
