--- Names and types of the parameters of system calls.
local syscall_parameters = {}

-- The calls of x86-64 in Linux 6.18, as `events/syscalls/sys_enter_NAME/format` of tracefs lists
-- them. A prefix is the type: `*` an address, `#` bits, `+` an unsigned long, `-` a signed one,
-- `%` an unsigned int; an int has none.
local CALLS = [[
accept fd *upeer_sockaddr *upeer_addrlen; accept4 fd *upeer_sockaddr *upeer_addrlen #flags; access
*filename #mode; acct *name; add_key *_type *_description *_payload +plen ringid; adjtimex *txc_p;
alarm %seconds; arch_prctl option +arg2; bind fd *umyaddr addrlen; bpf cmd *uattr %size; brk *brk;
cachestat fd *cstat_range *cstat #flags; capget header dataptr; capset header data; chdir
*filename; chmod *filename #mode; chown *filename user group; chroot *filename; clock_adjtime
which_clock *utx; clock_getres which_clock *tp; clock_gettime which_clock *tp; clock_nanosleep
which_clock #flags *rqtp *rmtp; clock_settime which_clock *tp; clone #clone_flags *newsp
*parent_tidptr *child_tidptr +tls; clone3 *uargs +size; close fd; close_range fd max_fd #flags;
connect fd *uservaddr addrlen; copy_file_range fd_in *off_in fd_out *off_out +len #flags; creat
*pathname #mode; delete_module *name_user #flags; dup %fildes; dup2 oldfd newfd; dup3 oldfd newfd
#flags; epoll_create size; epoll_create1 #flags; epoll_ctl epfd op fd *event; epoll_pwait epfd
*events maxevents timeout *sigmask +sigsetsize; epoll_pwait2 epfd *events maxevents *timeout
*sigmask +sigsetsize; epoll_wait epfd *events maxevents timeout; eventfd %count; eventfd2 %count
#flags; execve *filename *argv *envp; execveat fd *filename *argv *envp #flags; exit error_code;
exit_group error_code; faccessat dfd *filename #mode; faccessat2 dfd *filename #mode #flags;
fadvise64 fd -offset +len advice; fallocate fd #mode -offset -len; fanotify_init #flags
#event_f_flags; fanotify_mark fanotify_fd #flags #mask dfd *pathname; fchdir fd; fchmod fd #mode;
fchmodat dfd *filename #mode; fchmodat2 dfd *filename #mode #flags; fchown fd user group; fchownat
dfd *filename user group #flag; fcntl fd %cmd +arg; fdatasync fd; fgetxattr fd *name *value +size;
file_getattr dfd *filename *ufattr +usize #at_flags; file_setattr dfd *filename *ufattr +usize
#at_flags; finit_module fd *uargs #flags; flistxattr fd *list +size; flock fd %cmd; fork;
fremovexattr fd *name; fsconfig fd %cmd *_key *_value aux; fsetxattr fd *name *value +size #flags;
fsmount fs_fd #flags #attr_flags; fsopen *_fs_name #flags; fspick dfd *path #flags; fstat fd
*statbuf; fstatfs fd *buf; fsync fd; ftruncate fd -length; futex *uaddr op %val *utime *uaddr2
%val3; futex_requeue *waiters #flags nr_wake nr_requeue; futex_wait *uaddr +val #mask #flags
*timeout clockid; futex_waitv *waiters %nr_futexes #flags *timeout clockid; futex_wake *uaddr
#mask nr #flags; futimesat dfd *filename *utimes; get_mempolicy *policy *nmask +maxnode *addr
#flags; get_robust_list pid *head_ptr *len_ptr; getcpu *cpup *nodep *unused; getcwd *buf +size;
getdents fd *dirent %count; getdents64 fd *dirent %count; getegid; geteuid; getgid; getgroups
gidsetsize *grouplist; getitimer which *value; getpeername fd *usockaddr *usockaddr_len; getpgid
pid; getpgrp; getpid; getppid; getpriority which who; getrandom *ubuf +len #flags; getresgid
*rgidp *egidp *sgidp; getresuid *ruidp *euidp *suidp; getrlimit %resource *rlim; getrusage who
*ru; getsid pid; getsockname fd *usockaddr *usockaddr_len; getsockopt fd level optname *optval
*optlen; gettid; gettimeofday *tv *tz; getuid; getxattr *pathname *name *value +size; getxattrat
dfd *pathname #at_flags *name *uargs +usize; init_module *umod +len *uargs; inotify_add_watch fd
*pathname #mask; inotify_init; inotify_init1 #flags; inotify_rm_watch fd wd; io_cancel +ctx_id
*iocb *result; io_destroy +ctx; io_getevents +ctx_id -min_nr -nr *events *timeout; io_pgetevents
+ctx_id -min_nr -nr *events *timeout *usig; io_setup %nr_events *ctxp; io_submit +ctx_id -nr
*iocbpp; io_uring_enter fd %to_submit %min_complete #flags *argp +argsz; io_uring_register fd
%opcode *arg %nr_args; io_uring_setup %entries *params; ioctl fd %cmd +arg; ioperm +from +num
turn_on; iopl %level; ioprio_get which who; ioprio_set which who ioprio; kcmp pid1 pid2 type +idx1
+idx2; keyctl option +arg2 +arg3 +arg4 +arg5; kill pid sig; landlock_add_rule ruleset_fd rule_type
rule_attr #flags; landlock_create_ruleset attr +size #flags; landlock_restrict_self ruleset_fd
#flags; lchown *filename user group; lgetxattr *pathname *name *value +size; link *oldname
*newname; linkat olddfd *oldname newdfd *newname #flags; listen fd backlog; listmount *req
*mnt_ids +nr_mnt_ids #flags; listxattr *pathname *list +size; listxattrat dfd *pathname #at_flags
*list +size; llistxattr *pathname *list +size; lremovexattr *pathname *name; lseek fd -offset
%whence; lsetxattr *pathname *name *value +size #flags; lsm_get_self_attr %attr *ctx *size #flags;
lsm_list_modules *ids *size #flags; lsm_set_self_attr %attr *ctx %size #flags; lstat *filename
*statbuf; madvise *start +len_in behavior; mbind *start +len #mode *nmask +maxnode #flags;
membarrier cmd #flags cpu_id; memfd_create *uname #flags; memfd_secret #flags; migrate_pages pid
+maxnode *old_nodes *new_nodes; mincore *start +len *vec; mkdir *pathname #mode; mkdirat dfd
*pathname #mode; mknod *filename #mode %dev; mknodat dfd *filename #mode %dev; mlock *start +len;
mlock2 *start +len #flags; mlockall #flags; mmap *addr +len #prot #flags fd +off; modify_ldt func
*ptr +bytecount; mount *dev_name *dir_name *type #flags *data; mount_setattr dfd *path #flags
*uattr +usize; move_mount from_dfd *from_pathname to_dfd *to_pathname #flags; move_pages pid
+nr_pages *pages *nodes *status #flags; mprotect *start +len #prot; mq_getsetattr mqdes *u_mqstat
*u_omqstat; mq_notify mqdes *u_notification; mq_open *u_name #oflag #mode *u_attr; mq_timedreceive
mqdes *u_msg_ptr +msg_len *u_msg_prio *u_abs_timeout; mq_timedsend mqdes *u_msg_ptr +msg_len
%msg_prio *u_abs_timeout; mq_unlink *u_name; mremap *addr +old_len +new_len #flags *new_addr;
mseal *start +len #flags; msgctl msqid cmd *buf; msgget key msgflg; msgrcv msqid *msgp +msgsz
-msgtyp msgflg; msgsnd msqid *msgp +msgsz msgflg; msync *start +len #flags; munlock *start +len;
munlockall; munmap *addr +len; name_to_handle_at dfd *name *handle *mnt_id #flag; nanosleep *rqtp
*rmtp; newfstatat dfd *filename *statbuf #flag; open *filename #flags #mode; open_by_handle_at
mountdirfd *handle #flags; open_tree dfd *filename #flags; open_tree_attr dfd *filename #flags
*uattr +usize; openat dfd *filename #flags #mode; openat2 dfd *filename *how +usize; pause;
perf_event_open *attr_uptr pid cpu group_fd #flags; personality %personality; pidfd_getfd pidfd fd
#flags; pidfd_open pid #flags; pidfd_send_signal pidfd sig *info #flags; pipe *fildes; pipe2
*fildes #flags; pivot_root *new_root *put_old; pkey_alloc #flags +init_val; pkey_free pkey;
pkey_mprotect *start +len #prot pkey; poll *ufds %nfds timeout_msecs; ppoll *ufds %nfds *tsp
*sigmask +sigsetsize; prctl option +arg2 +arg3 +arg4 +arg5; pread64 fd *buf +count -pos; preadv
+fd *vec +vlen +pos_l +pos_h; preadv2 +fd *vec +vlen +pos_l +pos_h #flags; prlimit64 pid %resource
*new_rlim *old_rlim; process_madvise pidfd *vec +vlen behavior #flags; process_mrelease pidfd
#flags; process_vm_readv pid *lvec +liovcnt *rvec +riovcnt #flags; process_vm_writev pid *lvec
+liovcnt *rvec +riovcnt #flags; pselect6 n *inp *outp *exp *tsp *sig; ptrace -request -pid *addr
+data; pwrite64 fd *buf +count -pos; pwritev +fd *vec +vlen +pos_l +pos_h; pwritev2 +fd *vec +vlen
+pos_l +pos_h #flags; quotactl %cmd *special id *addr; quotactl_fd fd %cmd id *addr; read fd *buf
+count; readahead fd -offset +count; readlink *path *buf bufsiz; readlinkat dfd *pathname *buf
bufsiz; readv +fd *vec +vlen; reboot magic1 magic2 %cmd *arg; recvfrom fd *ubuf +size #flags *addr
*addr_len; recvmmsg fd *mmsg %vlen #flags *timeout; recvmsg fd *msg #flags; remap_file_pages
*start +size #prot +pgoff #flags; removexattr *pathname *name; removexattrat dfd *pathname
#at_flags *name; rename *oldname *newname; renameat olddfd *oldname newdfd *newname; renameat2
olddfd *oldname newdfd *newname #flags; request_key *_type *_description *_callout_info
destringid; restart_syscall; rmdir *pathname; rseq *rseq %rseq_len #flags %sig; rt_sigaction sig
*act *oact +sigsetsize; rt_sigpending *uset +sigsetsize; rt_sigprocmask how *nset *oset
+sigsetsize; rt_sigqueueinfo pid sig *uinfo; rt_sigreturn; rt_sigsuspend *unewset +sigsetsize;
rt_sigtimedwait *uthese *uinfo *uts +sigsetsize; rt_tgsigqueueinfo tgid pid sig *uinfo;
sched_get_priority_max policy; sched_get_priority_min policy; sched_getaffinity pid %len
*user_mask_ptr; sched_getattr pid *uattr %usize #flags; sched_getparam pid *param;
sched_getscheduler pid; sched_rr_get_interval pid *interval; sched_setaffinity pid %len
*user_mask_ptr; sched_setattr pid *uattr #flags; sched_setparam pid *param; sched_setscheduler pid
policy *param; sched_yield; seccomp %op #flags *uargs; select n *inp *outp *exp *tvp; semctl semid
semnum cmd +arg; semget key nsems semflg; semop semid *tsops %nsops; semtimedop semid *tsops
%nsops *timeout; sendfile out_fd in_fd *offset +count; sendmmsg fd *mmsg %vlen #flags; sendmsg fd
*msg #flags; sendto fd *buff +len #flags *addr addr_len; set_mempolicy #mode *nmask +maxnode;
set_mempolicy_home_node *start +len +home_node #flags; set_robust_list *head +len; set_tid_address
*tidptr; setdomainname *name len; setfsgid gid; setfsuid uid; setgid gid; setgroups gidsetsize
*grouplist; sethostname *name len; setitimer which *value *ovalue; setns fd #flags; setpgid pid
pgid; setpriority which who niceval; setregid rgid egid; setresgid rgid egid sgid; setresuid ruid
euid suid; setreuid ruid euid; setrlimit %resource *rlim; setsid; setsockopt fd level optname
*optval optlen; settimeofday *tv *tz; setuid uid; setxattr *pathname *name *value +size #flags;
setxattrat dfd *pathname #at_flags *name *uargs +usize; shmat shmid *shmaddr shmflg; shmctl shmid
cmd *buf; shmdt *shmaddr; shmget key +size shmflg; shutdown fd how; sigaltstack *uss *uoss;
signalfd ufd *user_mask #sizemask; signalfd4 ufd *user_mask #sizemask #flags; socket family type
protocol; socketpair family type protocol *usockvec; splice fd_in *off_in fd_out *off_out +len
#flags; stat *filename *statbuf; statfs *pathname *buf; statmount *req *buf +bufsize #flags; statx
dfd *filename #flags #mask *buffer; swapoff *specialfile; swapon *specialfile #swap_flags; symlink
*oldname *newname; symlinkat *oldname newdfd *newname; sync; sync_file_range fd -offset -nbytes
#flags; syncfs fd; sysfs option +arg1 +arg2; sysinfo *info; syslog type *buf len; tee fdin fdout
+len #flags; tgkill tgid pid sig; time *tloc; timer_create which_clock *timer_event_spec
*created_timer_id; timer_delete timer_id; timer_getoverrun timer_id; timer_gettime timer_id
*setting; timer_settime timer_id #flags *new_setting *old_setting; timerfd_create clockid #flags;
timerfd_gettime ufd *otmr; timerfd_settime ufd #flags *utmr *otmr; times *tbuf; tkill pid sig;
truncate *path -length; umask #mask; umount2 *name #flags; uname *name; unlink *pathname; unlinkat
dfd *pathname #flag; unshare #unshare_flags; userfaultfd #flags; ustat %dev *ubuf; utime *filename
*times; utimensat dfd *filename *utimes #flags; utimes *filename *utimes; vfork; vhangup; vmsplice
fd *uiov +nr_segs #flags; wait4 upid *stat_addr options *ru; waitid which upid *infop options *ru;
write fd *buf +count; writev +fd *vec +vlen
]]

local TYPES = { ["*"] = "address", ["#"] = "bits", ["+"] = "unsigned long", ["-"] = "long",
  ["%"] = "unsigned int" }

---@alias perilune.SyscallParameter { name: string, type: string }

local parsed ---@type table<string, perilune.SyscallParameter[]>?

local function parse()
  local calls = {}
  for call, rest in CALLS:gmatch "([%w_]+)([^;]*)" do
    local parameters = {}
    for prefix, name in rest:gmatch "([*#+%%-]?)([%w_]+)" do
      parameters[#parameters + 1] = { name = name, type = TYPES[prefix] or "int" }
    end
    calls[call] = parameters
  end
  return calls
end

--- Returns the parameters of a system call by its name; nil for one that is not in the list.
---@param call string
---@return perilune.SyscallParameter[]?
function syscall_parameters.of(call)
  parsed = parsed or parse()
  return parsed[call]
end

return syscall_parameters
