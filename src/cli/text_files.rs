//! Options that are the text of a file: replaces the path that was typed by the text.

use std::{fs::File, io::Read as _, path::Path};

use anyhow::{Context as _, Result, ensure};

use crate::script::option::{
    OptionKind, OptionSpec,
    value::{OptionValue, OptionValues},
};

/// Maximum size of a file in bytes.
const SIZE: u64 = 1 << 20;

/// Replaces each path of an option of type [`OptionKind::TextFile`].
///
/// # Errors
/// A file cannot be read, is too large or is not UTF-8.
pub(super) fn read(options: &[OptionSpec], values: &mut OptionValues) -> Result<()> {
    for option in options.iter().filter(|option| option.kind == OptionKind::TextFile) {
        if let Some(OptionValue::Text(value)) = values.get_mut(&option.long) {
            *value = text(Path::new(value.as_str())).with_context(|| option.typed())?;
        }
    }
    Ok(())
}

fn text(path: &Path) -> Result<String> {
    let shown = path.display();
    let file = File::open(path).with_context(|| format!("failed to open `{shown}`"))?;
    let mut text = String::new();
    let read = file.take(SIZE + 1).read_to_string(&mut text);
    read.with_context(|| format!("failed to read `{shown}`"))?;
    ensure!(text.len() as u64 <= SIZE, "`{shown}` is larger than 1 MiB; name a smaller file");
    ensure!(!text.trim().is_empty(), "`{shown}` is empty");
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_file_replaces_its_path() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("query.sql");
        std::fs::write(&path, "SELECT 1\n").unwrap();
        let options = [OptionSpec::new("file", OptionKind::TextFile, "")];
        let typed = |path: &Path| OptionValue::Text(path.to_str().unwrap().to_owned());
        let mut values = OptionValues::from([("file".to_owned(), typed(&path))]);
        read(&options, &mut values).unwrap();
        assert_eq!(values["file"], OptionValue::Text("SELECT 1\n".to_owned()));
        for (content, why) in [(vec![b' '; (1 << 20) + 1], "larger"), (vec![0xff], "UTF-8")] {
            std::fs::write(&path, content).unwrap();
            let mut values = OptionValues::from([("file".to_owned(), typed(&path))]);
            let error = format!("{:#}", read(&options, &mut values).unwrap_err());
            assert!(error.contains(why), "{error}");
        }
    }
}
