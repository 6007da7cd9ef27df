// Defences that can be switched off, in weak builds only (-DCOVE_WEAK, `make weak`), so that the
// test of a defence can first show its attack succeed without it. COVE_WEAKEN names those that are
// off, separated by commas. `@FILE` is a file of zeros and ones, one for each row of the table,
// that switches at run time: a start takes longer than most attacks. Defences that are decided at
// start (the lock, private directories, ready ids) have to be named. pid 1 is told when it is made.
// A weak build is for tests alone: never installed, and says so wherever asked.
//
// Elsewhere weak() is false to the compiler: neither the words nor the branches exist.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#ifdef COVE_WEAK

// clang-format off
//	  weak()        COVE_WEAKEN       what is off
#define WEAK_DEFENCES(X) \
	X(SECCOMP,      "seccomp",        "a box's list of permitted system calls") \
	X(ARGUMENTS,    "arguments",      "its filter by argument: ioctl, sockets, huge pages, core limit") \
	X(CLONE3,       "clone3",         "its commands' filter of clone3") \
	X(DAEMON_CALLS, "daemon_calls",   "the daemon's own filter of system calls") \
	X(SYNC_PACE,    "sync_pace",      "a box's sync and syncfs wait for their turn") \
	X(NNP,          "no_new_privs",   "no_new_privs; no filter can be loaded without it") \
	X(CAPABILITIES, "capabilities",   "the drop of capabilities in a box") \
	X(UNDUMPABLE,   "undumpable",     "pid 1 is not dumpable") \
	X(PROGRAM,      "program",        "pid 1's program, one file for all boxes, cannot be read in a box") \
	X(USERNS,       "userns",         "ids and rights of its own: a box's root is the host's") \
	X(CEILINGS,     "ceilings",       "no namespaces within a user namespace, bounded inotify") \
	X(OWNER,        "owner",          "each user namespace is owned by its own box's root") \
	X(PIDNS,        "pidns",          "the pid namespace of a box") \
	X(NETNS,        "netns",          "the network namespace of a box") \
	X(NETNS_OWN,    "netns_own",      "a way out is opened in the box's own network namespace alone") \
	X(MASKS,        "masks",          "files of /proc that are blank, empty or the box's own") \
	X(READONLY,     "readonly",       "files of /proc that are read-only") \
	X(NOSUID,       "nosuid",         "nosuid of a box's root") \
	X(NODEV,        "nodev",          "nodev of a box's root") \
	X(OVERLAY,      "overlay",        "the overlay on the root: a box has the layer itself") \
	X(ROOT,         "root",           "the box's root lies over every other") \
	X(NOFOLLOW,     "nofollow",       "mount points that must be directories, not links") \
	X(DEVICES,      "devices",        "the short list in /dev: a box sees the host's") \
	X(CGROUP_DIR,     "cgroup_dir",       "pid 1's cgroup directory is opened through a mount of its own") \
	X(CGROUP_TASKS,   "cgroup_tasks",     "v1: `tasks` of an exec's cgroup is opened as the box's root") \
	X(FDS,          "fds",            "a command inherits nothing but stdio") \
	X(CWD,          "cwd",            "a working directory must lie within the root") \
	X(MAGIC_LINKS,  "magic_links",    "paths of a client follow no magic link of /proc") \
	X(USER_RANGE,   "user_range",     "ids of commands are at most 65535") \
	X(REAP,         "reap",           "pid 1 reaps orphans") \
	X(PIDS,         "pids",           "the limit on processes") \
	X(MEMORY,       "memory",         "the limit on memory") \
	X(CPU,          "cpu",            "the limit on processors") \
	X(CPU_TIME,     "cpu_time",       "the limit on CPU time of a command") \
	X(DISK,         "disk",           "the limit on disk space") \
	X(HUGETLB,      "hugetlb",        "the group of all boxes has no huge pages") \
	X(IO,           "io",             "the limit on disk bandwidth") \
	X(SCRATCH,      "scratch",        "the size of /dev/shm and /run") \
	X(NOFILE,       "nofile",         "a command's limit on open files") \
	X(OUTPUT,       "output",         "the limit on kept output") \
	X(VOLATILE,     "volatile",       "fsync in a box does not reach the disk") \
	X(PRIVATE_DIR,        "private_dir",          "directories of boxes and layers are root's alone") \
	X(ETC,          "etc",            "which files of the host's /etc a box may see") \
	X(JAIL,         "jail",           "archives are unpacked in a jail") \
	X(JAIL_STDIO,   "jail_stdio",     "that jail has none of the warden's stdio") \
	X(PATHS,        "paths",          "paths of an archive stay beneath its directory") \
	X(NODES,        "nodes",          "device nodes of an archive are dropped") \
	X(RATIO,        "ratio",          "how far an archive may grow") \
	X(DIGEST,       "digest",         "blobs of an image are what their digests say") \
	X(LOCK_READONLY, "lock_readonly", "the daemon has the data directory's lock read-only") \
	X(LOCK_HOLDER,  "lock_holder",    "root's command line signals only who holds that lock") \
	X(LOCK,         "lock",           "one cove to a data directory") \
	X(INVENTORY,       "inventory",         "a new warden destroys what an earlier one left") \
	X(HOST,         "host",           "requests for a foreign host name are refused") \
	X(ORIGIN,       "origin",         "requests of a foreign page are refused") \
	X(HEAD_TIME,    "head_time",      "a request's head must come in time") \
	X(BODY_SIZE,    "body_size",      "the largest body of a request") \
	X(CONNS,        "conns",          "connections take at most half of the descriptors") \
	X(HEADS,        "heads",          "connections without a complete head make room, most of one peer") \
	X(FAIR_SHARES,       "fair_shares",         "nobody takes all connections and all memory for requests") \
	X(OUTBOUND,      "outbound",        "what is sent for a tenant does not reach the host's own networks") \
	X(REGISTRY_AUTH, "registry_auth", "credentials of a registry go to that server alone") \
	X(NEIGHBOURS,   "neighbours",     "hosts on this host's own links are not reached, whatever their address") \
	X(STRIKES,      "strikes",        "who guesses keys and tokens is held up") \
	X(USERS_SOCKET, "users_socket",   "the socket for local users is its group's alone") \
	X(CANCEL_ON_DELETE,       "cancel_on_delete",         "a visit ends with the port and the sandbox that it is of") \
	X(LOG_ESCAPE,   "log_escape",     "what peers chose is escaped in the log") \
	X(PRINT_ESCAPE, "print_escape",   "control characters in names are escaped on the terminal") \
	X(COPY_FILTERS, "copy_filters",   "an archive that `cove cp` reads is a plain tar") \
	X(TENANTS,      "tenants",        "what is another tenant's is not there") \
	X(SCOPES,       "scopes",         "a key may do what its scopes say") \
	X(QUOTA,        "quota",          "what a tenant may have at once") \
	X(HOST_KEY,     "host_key",       "the template 'host' is for keys that may") \
	X(REVOCATION,   "revocation",     "a key that was revoked or has expired opens nothing") \
	X(JUDGE,        "judge",          "connections out are judged by their names") \
	X(CROWD,        "crowd",          "how many connections out a box may have, and open in a second") \
	X(CLOSER,       "closer",         "what comes from a box is closed by a thread, not by the loop") \
	X(PASSRIGHTS,   "passrights",     "the kernel refuses descriptors on a dialogue") \
	X(EXECUTED,     "executed",       "a child that died before execve is not told as a command") \
	X(PROC_FILES,   "proc_files",     "the file API refuses /proc and /sys") \
	X(LOG_LINES,    "log_lines",      "how many lines of the log a box may cause in a minute") \
	X(PACE,         "pace",           "how often small pieces of a box's output are read") \
	X(SENDER,       "sender",         "a shell's answers count from its own process alone") \
	X(SECRET_DUMPS, "secret_dumps",   "values of secrets are in no dump of the daemon") \
	X(PLACEHOLDER,  "placeholder",    "a box has a placeholder instead of a secret's value") \
	X(SEAL,         "seal",           "values of secrets are encrypted in the database")
// clang-format on
enum weak {
#define X(name, word, what) WEAK_##name,
	WEAK_DEFENCES(X)
#undef X
		WEAK_COUNT
};

#define WEAK_BUILD true
#define weak(name) weak_is(WEAK_##name)
bool weak_is(enum weak defence);
// Reads COVE_WEAKEN; ends the process if it names no defence.
void weak_open(void);
// The environment of a new pid 1: COVE_WEAKEN as it is now, or NULL.
const char *weak_note(void);

#else

#define WEAK_BUILD false
#define weak(name) false
static inline void weak_open(void)
{
}
static inline const char *weak_note(void)
{
	return NULL;
}

#endif
