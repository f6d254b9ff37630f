//! Watches the embedded folders, and says when LuaJIT is built without its hook check.

fn main() {
    // Files that are new in these folders are embedded only if the crate is compiled again.
    for folder in ["scripts", "stdlib", "build.rs"] {
        println!("cargo:rerun-if-changed={folder}");
    }
    // .cargo/config.toml sets this, but cargo reads that file only when it is called inside the checkout. What was
    // really built is asked of the binary itself: script::guard::hook_stops_compiled_loops.
    println!("cargo:rerun-if-env-changed=TARGET_FLAGS");
    let flags = std::env::var("TARGET_FLAGS").unwrap_or_default();
    if !flags.contains("LUAJIT_ENABLE_CHECKHOOK") {
        println!(
            "cargo:warning=LuaJIT is built without its hook check, so a script's endless loop cannot be stopped; \
             build inside the checkout, or set TARGET_FLAGS=-DLUAJIT_ENABLE_CHECKHOOK"
        );
    }
}
