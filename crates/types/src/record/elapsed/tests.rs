use super::*;

#[test]
fn accepts_only_finite_numbers() {
    assert_eq!(ElapsedTime::from_ms(f64::NAN), Err(JsonValueError::NotFinite));
    assert_eq!(ElapsedTime::from_ms(f64::INFINITY), Err(JsonValueError::NotFinite));
    assert_eq!(Json::from(ElapsedTime::from_ms(12.0).unwrap()), Json::Int(12));
    assert_eq!(Json::from(ElapsedTime::from_ms(0.25).unwrap()).to_string(), "0.25");
    assert!(ElapsedTime::from_ms(-0.0).unwrap().as_ms().is_sign_positive());
    assert_eq!(Ok(ElapsedTime::from(Millis::from_secs(2))), ElapsedTime::from_ms(2000.0));
}
