//! Where results are written.

use super::*;

fn refused(flags: &OutputFlags, writer: Writer) -> String {
    flags
        .resolve(&ResultFlags::default(), writer)
        .map_or_else(|problems| problems.render(false), |_| String::new())
}

#[test]
fn what_a_command_cannot_honour_is_refused_by_name() {
    let why = OutputFlags {
        why: true,
        ..OutputFlags::default()
    };
    assert_eq!(refused(&why, Writer::Run), "");
    assert_eq!(refused(&why, Writer::Knee), "");
    assert!(refused(&why, Writer::Sweep).contains("`--why` has no effect on sweep"));
    let mut saved = OutputFlags::default();
    saved.results.save_result = true;
    assert_eq!(refused(&saved, Writer::Sweep), "");
    assert!(refused(&saved, Writer::Knee).contains("`--save-result` has no effect on knee"));
    let mut stray = OutputFlags::default();
    stray.results.result_dir = Some("x".into());
    assert!(refused(&stray, Writer::Run).contains("add --save-result"));
}

#[test]
fn a_file_has_the_form_that_its_name_says_unless_a_flag_says_otherwise() {
    let form = |file: &str, format| {
        let flags = OutputFlags {
            output: Some(file.into()),
            format,
            ..OutputFlags::default()
        };
        let outputs = flags.resolve(&ResultFlags::default(), Writer::Run).unwrap();
        (outputs.format, outputs.told.len())
    };
    assert_eq!(form("out.json", None), (Format::Json, 1));
    // A folder that is not there is told of, too.
    assert_eq!(form("a/out.json", None), (Format::Json, 2));
    assert_eq!(form("out.JSONL", None), (Format::Jsonl, 1));
    assert_eq!(form("out.csv", None), (Format::Csv, 1));
    assert_eq!(form("out.md", None), (Format::Md, 1));
    assert_eq!(form("out.txt", None), (Format::Table, 0));
    assert_eq!(form("out.json", Some(Format::Table)), (Format::Table, 0));
}

#[test]
fn a_folder_that_is_made_is_told_of_once() {
    let mut flags = OutputFlags {
        output: Some("no/such/folder/out.txt".into()),
        ..OutputFlags::default()
    };
    flags.results.save_result = true;
    let notes = |flags: &OutputFlags| {
        let outputs = flags.resolve(&ResultFlags::default(), Writer::Run).unwrap();
        // It is nothing without effect.
        assert_eq!(outputs.notes, [""; 0]);
        outputs.told
    };
    let one = ["the folder no/such/folder is not there and is made"];
    assert_eq!(notes(&flags), one);
    flags.results.result_dir = Some("no/such/folder".into());
    assert_eq!(notes(&flags), one);
    flags.output = None;
    assert_eq!(notes(&flags), one);
}

#[test]
fn a_pasted_flag_without_effect_is_a_note() {
    let pasted = ResultFlags {
        save_result: true,
        ..ResultFlags::default()
    };
    let outputs = OutputFlags::default().resolve(&pasted, Writer::Knee).unwrap();
    assert!(!outputs.save_result);
    assert!(outputs.notes[0].starts_with("in --bench-cmd: --save-result has no effect"));
}
