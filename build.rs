//! Watches the embedded folders, and warns when LuaJIT is built without its hook check.

fn main() {
    // New files in these folders are embedded only if the crate is compiled again.
    for folder in ["scripts", "stdlib", "build.rs"] {
        println!("cargo:rerun-if-changed={folder}");
    }
    // .cargo/config.toml sets this variable, but cargo reads that file only inside the checkout.
    // script::guard::hook_stops_compiled_loops checks the binary that was built.
    println!("cargo:rerun-if-env-changed=TARGET_FLAGS");
    let flags = std::env::var("TARGET_FLAGS").unwrap_or_default();
    if !flags.contains("LUAJIT_ENABLE_CHECKHOOK") {
        println!(
            "cargo:warning=LuaJIT is built without its hook check, so a script's endless loop \
             cannot be stopped; build inside the checkout, or set \
             TARGET_FLAGS=-DLUAJIT_ENABLE_CHECKHOOK"
        );
    }
}
