//! Printing a generated playbook and parsing it again gives the same model.

use noetl_oracle::generate::{GenConfig, generate_playbook};
use noetl_playbook::{CheckOptions, check, to_yaml};

#[test]
fn generated_playbooks_round_trip_through_yaml() {
    for seed in 0..1_500 {
        let text = generate_playbook(seed, &GenConfig::all_constructs()).to_yaml();
        let document = check(&text, &CheckOptions::default()).document;
        let printed = document.as_ref().and_then(to_yaml);
        let again =
            printed.as_ref().and_then(|printed| check(printed, &CheckOptions::default()).document);
        assert!(document.is_some() && document == again, "seed {seed}:\n{text}\n---\n{printed:?}");
        assert_eq!(printed, again.as_ref().and_then(to_yaml), "seed {seed} prints the same twice");
    }
}
