//! `gpu-remediator crds`.

use std::io::Write;

use anyhow::{Context, bail};

use crate::api;

/// Prints the custom resource definitions as YAML
#[derive(Debug, clap::Args)]
pub struct CrdsArgs {
    /// Print only this one, by its plural name, for example `gpufaults`
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
}

/// Prints them to `out`.
///
/// # Errors
///
/// There is no definition of that name, or the output cannot be written.
pub fn run(args: &CrdsArgs, out: &mut impl Write) -> anyhow::Result<()> {
    let all = api::definitions();
    let names = all
        .iter()
        .map(|(name, _)| *name)
        .collect::<Vec<_>>()
        .join(", ");
    let chosen: Vec<_> = all
        .into_iter()
        .filter(|(name, _)| args.name.as_deref().is_none_or(|wanted| wanted == *name))
        .collect();
    if chosen.is_empty() {
        bail!(
            "there is no custom resource {:?}; there are {names}",
            args.name.as_deref().unwrap_or_default()
        );
    }
    let several = chosen.len() > 1;
    for (name, definition) in chosen {
        let text =
            serde_saphyr::to_string(&definition).with_context(|| format!("writing {name}"))?;
        if several {
            writeln!(out, "---")?;
        }
        write!(out, "{}", text.trim_start_matches("---\n"))?;
    }
    out.flush().context("writing")
}
