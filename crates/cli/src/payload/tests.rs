use super::*;

fn apply_sets(sets: &[&str]) -> Result<String, String> {
    let mut payload = JsonMap::new();
    for assignment in sets {
        set_value(&mut payload, assignment).map_err(|error| error.to_string())?;
    }
    Ok(Json::from(payload).to_string())
}

#[test]
fn values_are_parsed_as_yaml() {
    let sets = [
        "a=1", "b=1.5", "c=true", "d=null", "e=Oslo, Norway", "f='1'", "g=[1, x]", "h={k: v}",
        "i=", "j=k: v", "k=http://host/?a=b", "l=*", "m=- x",
    ];
    insta::assert_snapshot!(apply_sets(&sets).unwrap(), @r#"{"a":1,"b":1.5,"c":true,"d":null,"e":"Oslo, Norway","f":"1","g":[1,"x"],"h":{"k":"v"},"i":"","j":"k: v","k":"http://host/?a=b","l":"*","m":"- x"}"#);
}

#[test]
fn dots_select_nested_maps() {
    assert_eq!(
        apply_sets(&["a.b.c=1", "a.b.d=2", "a.e=3"]).unwrap(),
        r#"{"a":{"b":{"c":1,"d":2},"e":3}}"#
    );
}

#[test]
fn errors_name_the_flag() {
    insta::assert_snapshot!(apply_sets(&["city"]).unwrap_err(), @"--set 'city': must be NAME=VALUE");
    insta::assert_snapshot!(apply_sets(&["=1"]).unwrap_err(), @"--set '=1': must be NAME=VALUE");
    insta::assert_snapshot!(apply_sets(&["a..b=1"]).unwrap_err(), @"--set 'a..b=1': must be NAME=VALUE");
    insta::assert_snapshot!(apply_sets(&["a=[1"]).unwrap_err(), @"--set 'a=[1': the value is not valid YAML");
    insta::assert_snapshot!(apply_sets(&["a=1", "a.b=2"]).unwrap_err(), @"--set 'a.b=2': 'a' is a number, not a map");
}

#[test]
fn payload_documents_are_maps() {
    assert_eq!(parse_document("p", "{\"a\": 1}").unwrap().len(), 1);
    assert_eq!(parse_document("p", "a: 1\nb: 2\n").unwrap().len(), 2);
    assert!(parse_document("p", "").is_ok_and(|map| map.is_empty()));
    insta::assert_snapshot!(parse_document("p.json", "[1]").unwrap_err(), @"--payload 'p.json' is a list; it must be a map of names to values");
    insta::assert_snapshot!(parse_document("p.json", "{\"a\": }").map(|map| map.len()).unwrap_or_default().to_string(), @"1");
    insta::assert_snapshot!(parse_document("p.json", "{\"a\": 1").unwrap_err(), @"--payload 'p.json' is neither JSON nor YAML: EOF while parsing an object at line 1 column 7");
    insta::assert_snapshot!(parse_document("p.yaml", "a: [1").unwrap_err(), @"--payload 'p.yaml' is neither JSON nor YAML");
}
