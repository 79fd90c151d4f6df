//! Time to check a playbook of 200 steps.

use std::fmt::Write as _;
use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use noetl_playbook::{CheckOptions, check, to_yaml};

/// A chain of steps of several kinds, each with templates, a policy and two arcs.
fn playbook(steps: usize) -> String {
    let mut text = String::from(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: chain, path: bench/chain}\n\
         workload: {host: 'https://api.example', limit: 10}\nworkflow:\n",
    );
    for step in 0..steps {
        let next = step + 1;
        let _ = write!(
            text,
            "  - step: step_{step}
    when: \"{{{{ workload.limit > 0 }}}}\"
    input: {{ page: \"{{{{ ctx.page | default(1) }}}}\" }}
    tool:
      - name: fetch
        kind: http
        url: \"{{{{ workload.host }}}}/items/{step}?page={{{{ page }}}}\"
        spec:
          policy:
            rules:
              - when: \"{{{{ output.http.status in [429, 503] }}}}\"
                then: {{ do: retry, attempts: 5, backoff: exponential, delay: 0.5 }}
              - else: {{ then: {{ do: continue }} }}
      - name: shape
        kind: python
        input: {{ items: \"{{{{ fetch.data['items'] }}}}\" }}
        code: |
          def main(items):
              return {{\"count\": len(items or [])}}
    set: {{ ctx.page: \"{{{{ (ctx.page | default(1)) + 1 }}}}\" }}
"
        );
        if next < steps {
            let _ = writeln!(
                text,
                "    next: {{ arcs: [{{ step: step_{next}, when: \"{{{{ event.name == 'call.done' }}}}\" }}, {{ step: end }}] }}"
            );
        }
    }
    text
}

fn benches(criterion: &mut Criterion) {
    let text = playbook(200);
    let checked = check(&text, &CheckOptions::default());
    assert!(checked.diagnostics.is_empty(), "{:#?}", checked.diagnostics);
    let mut group = criterion.benchmark_group("check");
    group.throughput(Throughput::Bytes(text.len() as u64));
    group.bench_function("200 steps", |bencher| {
        bencher.iter(|| check(black_box(&text), &CheckOptions::default()));
    });
    if let Some(document) = &checked.document {
        group.bench_function("print 200 steps", |bencher| {
            bencher.iter(|| to_yaml(black_box(document)));
        });
    }
    group.finish();
}

criterion_group!(check_benches, benches);
criterion_main!(check_benches);
