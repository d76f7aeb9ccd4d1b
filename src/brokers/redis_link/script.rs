//! Scripts that run in Redis, joined from the sources in a folder.

/// Joins the sources in the folder `script` beside the calling file, in order. Each one may use what those before it
/// define.
#[macro_export]
macro_rules! script {
    ($($name:literal),* $(,)?) => { concat!($(include_str!(concat!("script/", $name, ".lua")), "\n",)*) };
}

/// For the test of a broker: asserts that each source in the folder `script` of its crate is part of its script, and
/// short enough.
pub fn assert_whole(script: &str, crate_folder: &str) {
    let folder = format!("{crate_folder}/script");
    let sources = files(folder.as_ref());
    assert!(sources.len() > 3, "{folder}");
    for path in sources {
        let text = std::fs::read_to_string(&path).expect("text");
        assert!(script.contains(&text), "{} is not part of the script", path.display());
        let is_short = |line: &str| line.chars().count() <= 120;
        assert!(text.lines().count() <= 400 && text.lines().all(is_short), "{}", path.display());
    }
}

/// The files in a folder and in those below it.
fn files(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries =
        std::fs::read_dir(folder).expect("the sources").map(|entry| entry.expect("a source").path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}
