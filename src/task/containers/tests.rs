//! Names of containers from made file trees.

use super::*;
use std::fs;
use std::os::unix::fs::symlink;

const ID: &str = "1f2e3d4c5b6a79880123456789abcdef0123456789abcdef0123456789abcdef";
const POD: &str = "0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0";

/// A tree of runtime files in a temporary folder.
struct Tree(tempfile::TempDir);

impl Tree {
    fn new() -> Tree {
        Tree(tempfile::tempdir().unwrap())
    }

    fn with(self, path: &str, text: &str) -> Tree {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    fn name_of(&self, cgroup: &str) -> Option<String> {
        ContainerFiles::below(self.0.path()).name_of(cgroup)
    }
}

#[test]
fn the_id_is_found_in_the_cgroup_of_each_runtime() {
    for cgroup in [
        format!("/docker/{ID}"),
        format!("/system.slice/docker-{ID}.scope"),
        format!("/system.slice/nerdctl-{ID}.scope"),
        format!("/machine.slice/libpod-{ID}.scope"),
        format!("/machine.slice/libpod-{ID}.scope/container"),
        format!("/libpod_parent/libpod-{ID}"),
        format!("/kubepods/besteffort/pod{POD}/{ID}"),
        format!(
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{}.slice/\
             cri-containerd-{ID}.scope",
            POD.replace('-', "_")
        ),
        format!("/kubepods.slice/kubepods-pod{}.slice/crio-{ID}.scope", POD.replace('-', "_")),
        format!("/system.slice/kubepods-burstable-pod1.slice:cri-containerd:{ID}"),
        // A container inside a container: the inner one.
        format!("/docker/{}/docker/{ID}", ID.replace('1', "a")),
    ] {
        assert_eq!(named(&cgroup), Some(Named::Id(ID)), "{cgroup}");
        assert_eq!(Tree::new().name_of(&cgroup).as_deref(), Some("1f2e3d4c5b6a"), "{cgroup}");
    }
}

#[test]
fn a_task_outside_containers_has_none() {
    for cgroup in [
        "/",
        "",
        "/system.slice/nginx.service",
        "/user.slice/user-1000.slice/session-3.scope",
        "/init.scope",
        "/machine.slice",
        "/docker/short",
        "cgroup:12345",
        "/kubepods/besteffort",
    ] {
        assert_eq!(Tree::new().name_of(cgroup), None, "{cgroup}");
    }
}

#[test]
fn machines_and_pods_are_named_by_their_cgroup() {
    let name = |cgroup: &str| Tree::new().name_of(cgroup).unwrap();
    assert_eq!(name("/machine.slice/machine-my\\x2dbox.scope/payload"), "my-box");
    assert_eq!(name("/machine.slice/systemd-nspawn@web.service/payload"), "web");
    assert_eq!(name("/lxc/web"), "web");
    assert_eq!(name("/lxc.payload.web/init.scope"), "web");
    assert_eq!(name(&format!("/kubepods/besteffort/pod{POD}")), "pod 0b1c2d3e-4f5");
}

#[test]
fn docker_names_are_read_from_the_container_files() {
    let tree = Tree::new()
        .with(&format!("var/lib/docker/containers/{ID}/config.v2.json"), "{\"Name\":\"/web\"}");
    assert_eq!(tree.name_of(&format!("/docker/{ID}")).as_deref(), Some("web"));
}

#[test]
fn podman_names_are_read_from_the_list_of_containers() {
    let list =
        format!("[{{\"id\":\"other\",\"names\":[\"x\"]}},{{\"id\":\"{ID}\",\"names\":[\"db\"]}}]");
    let tree =
        Tree::new().with("var/lib/containers/storage/overlay-containers/containers.json", &list);
    assert_eq!(tree.name_of(&format!("/machine.slice/libpod-{ID}.scope")).as_deref(), Some("db"));
}

#[test]
fn a_container_of_a_pod_has_namespace_pod_and_name() {
    let containerd = r#"{"annotations":{"io.kubernetes.cri.container-name":"nginx",
        "io.kubernetes.cri.sandbox-name":"web-1","io.kubernetes.cri.sandbox-namespace":"prod"}}"#;
    let folder = "run/containerd/io.containerd.runtime.v2.task/k8s.io";
    let tree = Tree::new().with(&format!("{folder}/{ID}/config.json"), containerd);
    let cgroup = format!("/kubepods/besteffort/pod{POD}/{ID}");
    assert_eq!(tree.name_of(&cgroup).as_deref(), Some("prod/web-1/nginx"));
    let pause = r#"{"annotations":{"io.kubernetes.cri.container-type":"sandbox",
        "io.kubernetes.cri.sandbox-name":"web-1"}}"#;
    let tree = Tree::new().with(&format!("{folder}/{ID}/config.json"), pause);
    assert_eq!(tree.name_of(&cgroup).as_deref(), Some("web-1/pause"));
    let crio = r#"{"annotations":{"io.kubernetes.container.name":"nginx",
        "io.kubernetes.pod.name":"web-1","io.kubernetes.pod.namespace":"prod"}}"#;
    let path = format!("run/containers/storage/overlay-containers/{ID}/userdata/config.json");
    let tree = Tree::new().with(&path, crio);
    assert_eq!(tree.name_of(&cgroup).as_deref(), Some("prod/web-1/nginx"));
}

#[test]
fn a_file_that_is_malformed_or_too_large_gives_the_short_id() {
    let path = format!("var/lib/docker/containers/{ID}/config.v2.json");
    let of = |tree: Tree| tree.name_of(&format!("/docker/{ID}"));
    for text in ["", "{", "[]", "{\"Name\":7}", "{\"Name\":\"\"}", "null"] {
        assert_eq!(of(Tree::new().with(&path, text)).as_deref(), Some("1f2e3d4c5b6a"), "{text}");
    }
    let tree = Tree::new().with(&path, "{\"Name\":\"/web\"}");
    fs::File::options()
        .write(true)
        .open(tree.0.path().join(&path))
        .unwrap()
        .set_len(FILE_MAX + 1)
        .unwrap();
    assert_eq!(of(tree).as_deref(), Some("1f2e3d4c5b6a"));
}

#[test]
fn a_link_of_another_user_is_not_followed() {
    let tree = Tree::new().with("elsewhere/config.v2.json", "{\"Name\":\"/forged\"}");
    let containers = tree.0.path().join("var/lib/docker/containers");
    fs::create_dir_all(&containers).unwrap();
    let link = containers.join(ID);
    symlink(tree.0.path().join("elsewhere"), &link).unwrap();
    let name = || tree.name_of(&format!("/docker/{ID}"));
    assert_eq!(name().as_deref(), Some("forged"), "the own link");
    if effective_uid() == 0 {
        std::os::unix::fs::lchown(&link, Some(65534), None).unwrap();
        assert_eq!(name().as_deref(), Some("1f2e3d4c5b6a"), "the link of another user");
    }
}
