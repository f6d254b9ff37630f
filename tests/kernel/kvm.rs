//! An emulated machine with its own kernel: it runs a guest, whose port accesses are counted, and
//! programs that call functions of the kernel.
//!
//! Most test machines have no KVM events, and not every kernel has kprobes. qemu emulates a machine
//! with AMD's virtualization in some seconds; its kernel is a package that was unpacked into
//! `$PERILUNE_GUEST`, as in `.ci/run`.

use std::{
    ffi::OsStr,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
};

use serde_json::Value;

use crate::live::{live_tests, skip};

live_tests! {
    root: [],
    any: [
        the_exits_of_a_guest_are_its_port_accesses,
        calls_of_the_kernels_functions_are_counted_with_their_arguments,
    ]
}

/// Timeout of the machine from start to end, in seconds. Beside other programs that use all CPUs it
/// takes minutes.
const PATIENCE: &str = "600";

/// Runs a command to its end and returns its stdout.
fn run(command: &mut Command) -> Vec<u8> {
    let output = command.stderr(Stdio::piped()).output();
    let output = output.unwrap_or_else(|why| panic!("{command:?}: {why}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}: {said}", output.status);
    output.stdout
}

/// Collects all files below a folder.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the kernel's package is unpacked").flatten() {
        match entry.path() {
            path if path.is_dir() => files(&path, found),
            path => found.push(path),
        }
    }
}

/// Creates the initial root file system of the machine: the command, its libraries, the guest, and
/// the modules of KVM.
fn root(of_kernel: &[PathBuf], folder: &Path) -> PathBuf {
    let root = folder.join("root");
    for part in ["bin", "lib", "proc", "sys", "dev"] {
        fs::create_dir_all(root.join(part)).expect("a folder");
    }
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernel/guest");
    run(Command::new("cc")
        .args(["-O2", "-static", "-o"])
        .arg(root.join("bin/ports"))
        .arg(here.join("ports.c")));
    for (name, bits) in [("seeks", "-m64"), ("seeks32", "-m32")] {
        run(Command::new("cc")
            .args(["-O1", "-nostdlib", "-static", "-no-pie", "-fno-pie", "-fno-stack-protector"])
            .args([bits, "-o"])
            .arg(root.join("bin").join(name))
            .arg(here.join("seeks.c")));
    }
    let command = env!("CARGO_BIN_EXE_perilune");
    run(Command::new("objcopy").arg("--strip-debug").arg(command).arg(root.join("bin/perilune")));
    let listed = String::from_utf8(run(Command::new("ldd").arg(command))).expect("paths are text");
    for library in listed.split_whitespace().filter(|word| word.starts_with('/')) {
        let to = root.join(&library[1..]);
        fs::create_dir_all(to.parent().expect("it lies in a folder")).expect("a folder");
        fs::copy(library, to).expect("a library can be copied");
    }
    for module in ["irqbypass.ko", "ccp.ko", "kvm.ko", "kvm-amd.ko"] {
        if let Some(path) = of_kernel.iter().find(|path| path.ends_with(module)) {
            fs::copy(path, root.join("lib").join(module)).expect("a module can be copied");
        }
    }
    let busybox = String::from_utf8(run(Command::new("sh").args(["-c", "command -v busybox"])));
    fs::copy(busybox.expect("a path").trim(), root.join("bin/busybox")).expect("busybox is static");
    fs::copy(here.join("init"), root.join("init")).expect("init can be copied");
    fs::set_permissions(root.join("init"), fs::Permissions::from_mode(0o755)).expect("it is ours");
    let image = folder.join("image");
    let pack = "cd \"$0\" && find . | busybox cpio -o -H newc > \"$1\"";
    run(Command::new("sh").args(["-c", pack]).arg(&root).arg(&image));
    image
}

/// Returns the console output of the machine, which is started once for all tests.
fn console() -> &'static str {
    static CONSOLE: OnceLock<String> = OnceLock::new();
    let Some(unpacked) = std::env::var_os("PERILUNE_GUEST") else {
        skip("PERILUNE_GUEST names no unpacked kernel package (.ci/run shows how)");
    };
    CONSOLE.get_or_init(|| boot(&unpacked))
}

fn boot(unpacked: &OsStr) -> String {
    let mut of_kernel = Vec::new();
    files(Path::new(unpacked), &mut of_kernel);
    let is_kernel = |path: &&PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz"))
    };
    let kernel = of_kernel.iter().find(is_kernel).expect("the package has a kernel");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let image = root(&of_kernel, folder.path());
    // One thread emulates both CPUs in turns. With two threads, one CPU may spin while it waits
    // for the other.
    let machine = ["-accel", "tcg,thread=single", "-cpu", "max,+svm", "-m", "1024", "-smp", "2"];
    let output = Command::new("timeout")
        .args(["-k", "1", PATIENCE, "qemu-system-x86_64", "-nographic", "-no-reboot"])
        .args(["-nic", "none", "-append", "console=ttyS0 quiet panic=-1"])
        .args(machine)
        .arg("-kernel")
        .arg(kernel)
        .arg("-initrd")
        .arg(image)
        .stdin(Stdio::null())
        .output()
        .expect("timeout runs");
    let console = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the machine: {}: {said}{console}", output.status);
    console
}

/// Returns the objects that follow this prefix.
fn objects(console: &str, words: &str) -> Vec<Value> {
    let printed = console.lines().filter_map(|line| line.trim_end().strip_prefix(words));
    printed.filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn the_exits_of_a_guest_are_its_port_accesses() {
    let console = console();
    assert!(console.contains("ports 1000"), "the guest did not run: {console}");
    let objects = objects(console, "out: ");
    let calls = |reason: &str| {
        let row = objects.iter().find(|object| object["exit_reason"] == reason);
        row.and_then(|row| row["calls"].as_u64())
    };
    assert_eq!(calls("io"), Some(1000), "{console}");
    let coverage = objects.iter().find(|object| object["final"] == true).expect("a last coverage");
    assert_eq!((&coverage["lost"], &coverage["unmatched"]), (&0.into(), &0.into()), "{coverage}");
}

fn calls_of_the_kernels_functions_are_counted_with_their_arguments() {
    let console = console();
    // Two processes, each with the offsets 0, 1, 2 … 499.
    let (calls, offsets) = (2 * 500, 2 * 499 * 500 / 2);
    for (program, title, key) in [
        ("seeks calls: ", "kprobe", "whence"),
        ("seeks returns: ", "kretprobe", "any"),
        ("seeks32 calls: ", "kprobe", "whence"),
        ("seeks32 returns: ", "kretprobe", "any"),
    ] {
        let objects = objects(console, program);
        let row = objects.iter().find(|object| object["type"] == "row" && object[key] == 0);
        let row = row.unwrap_or_else(|| panic!("{program}{title}: {console}"));
        assert_eq!(row["offset"], offsets, "{program}");
        let coverage = objects.iter().find(|o| o["final"] == true).expect("a last coverage");
        assert_eq!(coverage["events"], calls, "{program}");
        for problem in ["lost", "undecodable", "errors"] {
            assert_eq!(coverage[problem], 0, "{program}{coverage}");
        }
    }
    let has = |words: &str| console.lines().any(|line| line.contains(words));
    assert!(has("kprobe:shmem_file_llseek: arg1=0xff") && has("arg2=0x7 arg3=0x0"), "{console}");
    assert!(has("stack:") && has(" shmem_file_llseek+0x"), "{console}");
    // The stack of a return begins at the return address.
    let mut back = console.lines().skip_while(|line| !line.ends_with("retval=0"));
    assert!(back.nth(1).is_some_and(|line| line.contains(" ksys_lseek+0x")), "{console}");
    assert!(has("many: ") && has(" kprobe:vfs_read: arg1=0xff"), "{console}");
    // Init functions are not tried; the kernel of this machine refuses two others.
    assert!(!has("vfs_caches_init"), "{console}");
    assert!(
        has("some: perilune: warning: kprobe:*_notifier_call_chain: omitted \
             atomic_notifier_call_chain"),
        "{console}"
    );
    assert!(has("exc_int3: perilune: kprobe:exc_int3: the kernel"), "{console}");
    assert!(has("exc_int*: perilune: kprobe:exc_int3: the kernel"), "all of a glob: {console}");
    assert!(
        has("the kernel has no function 'shmem_file_lseek'; did you mean 'shmem_file_llseek'"),
        "{console}"
    );
    let found = |key: &str| {
        objects(console, "ip: ").iter().find_map(|o| o.get(key).cloned()).expect("a line has it")
    };
    let begins = found("begins");
    let begins = u64::from_str_radix(begins.as_str().expect("digits"), 16).expect("an address");
    // A number in a script is signed.
    let behind = |kind| found(kind).as_i64().expect("a number") - begins.cast_signed();
    // The address after a breakpoint, which is behind `endbr64` where the kernel's functions begin
    // with it.
    assert!([1, 5].contains(&behind("kprobe")), "{console}");
    assert!(behind("kretprobe").abs() > 0x1000, "{console}");
    assert!(has("list: kprobe:shmem_file_llseek"), "{console}");
    assert!(has("doctor: functions          ok"), "{console}");
}
