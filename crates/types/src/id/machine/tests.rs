use super::*;

#[test]
fn accepts_numbers_in_range() {
    for (text, number) in [("0", 0), ("7", 7), ("1023", 1023)] {
        assert_eq!(text.parse::<MachineId>().unwrap().get(), number);
    }
    for wrong in ["", "1024", "-1", "+1", "70000", "host-7", "1.0", " 1"] {
        assert_eq!(
            wrong.parse::<MachineId>().unwrap_err().to_string(),
            format!("`{wrong}` is not a machine id: expected a whole number from 0 to 1023")
        );
    }
}
