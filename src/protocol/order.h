// The protocol between daemon and warden: orders and answers. One SOCK_SEQPACKET message each way,
// encoded here, checked again on arrival. An order names a box by id, a template by name, and
// numbers; never a path, a uid, a kernel flag or an argv.
//
// A killed exec cgroup is spent: since Linux 6.1.129 and 6.14 a process cloned into a cgroup that
// was once killed dies at once. The daemon then orders another CGROUP, which may have the number of
// a spent one, made again. The mark of an exec cgroup is part of its directory's name, for tools on
// the host; an exec cgroup with a mark serves once.
//
// Answers may come out of order: each repeats the id of its order; a BUILD with `ahead` has none.
// fds are sent with the message, their number fixed by its kind; see answer_fds().
//
// The network of a box is two sockets in its network namespace: a TCP listener that accepts every
// connection of the box, except those to its own loopback, and a UDP socket at port 53 of every
// address. They come with BUILD and NETWORK, after the other fds, if the order has `net` and the
// answer has it too. Each opening replaces the one before; accepted connections live on. Without a
// daemon that holds the listener, or without the warden that steers to it, a box is offline: a new
// daemon or warden has NETWORK done again. The order carries any socket of the box, by which the
// warden identifies the namespace.
//
// Boxes outlive daemon and warden. A new daemon asks for BOXES, and takes those that it knows by
// ADOPT; it has the others destroyed. An order whose answer was lost with the connection may have
// been executed, and may be repeated: DESTROY, STOP, PAUSE and THAW then succeed, a BUILD is
// refused with box_exists.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/id.h"
#include "base/str.h"
#include "protocol/talk.h"
#include "types/limits.h"

#define ORDER_VERSION 10
#define ORDER_SIZE_MAX 4096
#define ORDER_FDS_MAX 5
#define ORDER_BOXES_MAX 16384
#define ORDER_TRACE_MAX 65 // with its NUL

// clang-format off
//	  kind     what it asks                                     fds of the final answer
#define ORDER_KINDS(X) \
	X(HELLO,   "versions, and the abilities of this host",      0) \
	X(BUILD,   "make a box",                                    3) /* control, oom, meter; net */ \
	X(DESTROY,    "end a box, answer when it is verified gone",    0) \
	X(CGROUP,   "one more cgroup for an exec of this box",       2) /* of a new one join, on v1 another; meter, oom */ \
	X(KILL,    "kill all processes of one exec cgroup",         0) \
	X(IMPORT,  "unpack an archive as a template",               0) /* first a MORE with the pipe */ \
	X(FREEZE,  "copy the host template once, under a name",     0) \
	X(FORGET,  "remove a template",                             0) \
	X(LIST,    "the templates, a page at a time",               0) \
	X(BOXES,   "boxes and their states, a page at a time",      0) \
	X(ADOPT,   "what a new daemon needs of a living box",       0) \
	X(STOP,    "end all its processes, keep its disk",          0) \
	X(PAUSE,   "freeze a box, answer when all of it is frozen", 0) \
	X(THAW,    "thaw a box",                                    0) \
	X(INVENTORY,  "resources of boxes in kernel and on disk",      0) \
	X(NETWORK, "open or close the network of a living box",     0) /* net */ \
	X(USAGE,   "resources in use by a box, without waking it",  0)
// clang-format on

enum order_kind {
#define X(kind, what, fds) ORDER_##kind,
	ORDER_KINDS(X)
#undef X
		ORDER_KIND_COUNT
};

struct order {
	enum order_kind kind;
	uint32_t id;
	char trace[ORDER_TRACE_MAX]; // all but HELLO: of the request that caused it, or ""
	// BUILD DESTROY CGROUP KILL ADOPT STOP PAUSE THAW NETWORK USAGE. BOXES: ids after this one,
	// "": from the first.
	char box[ID_BOX_LEN + 1];
	// BUILD IMPORT FREEZE FORGET: template. LIST: names after this one. CGROUP: its mark, or
	// "".
	char name[TEMPLATE_NAME_MAX];
	char host[ID_NAME_MAX + 2]; // BUILD: the box's host name
	struct limits limits;	    // BUILD
	// BUILD: the disk ends with the processes, so no sync is needed; the box cannot be stopped.
	bool ephemeral;
	bool net; // BUILD: with its network; NETWORK: open it, else close
	bool cpu; // ADOPT: with its CPU time, which costs a millisecond
	// BUILD: on the disk that a STOP, or a reboot, has left. CGROUP: of `exec_cgroup`, which
	// pid 1 knows.
	bool again;
	// BUILD: send the rootfs mounts to the prebuilt box, without an answer. An equal BUILD
	// follows, or a DESTROY.
	bool ahead;
	uint32_t exec_cgroup; // KILL; CGROUP again
	uint32_t version;     // HELLO
	// HELLO, BUILD: the id of the next new box, so that it can be prebuilt; "": unknown.
	// DESTROY: the same, if the box was to be the next.
	char next[ID_BOX_LEN + 1];
};

enum answer_kind { ANSWER_DONE, ANSWER_MORE, ANSWER_REFUSED, ANSWER_KIND_COUNT };

struct order_template {
	char name[TEMPLATE_NAME_MAX];
	bool is_host;	 // made from this host, not imported
	uint64_t bytes;	 // on disk; 0: not measured
	int64_t created; // wall clock, ms
};
#define ORDER_LIST_PAGE 24

// The state of a box, by the kernel.
enum order_box_state {
	ORDER_BOX_ALIVE,
	ORDER_BOX_FROZEN, // alive, and PAUSEd: its pid 1 answers after THAW
	ORDER_BOX_DEAD,	  // its pid 1 has exited without an order: to be STOPped or DESTROYed
	ORDER_BOX_KEPT,	  // nothing but its disk
	ORDER_BOX_GOING,  // being destroyed or stopped; ask again
	ORDER_BOX_STATE_COUNT
};
struct order_box {
	char box[ID_BOX_LEN + 1];
	enum order_box_state state;
	uint32_t pid; // of its pid 1 on the host; 0: none
};
#define ORDER_BOXES_PAGE 32 // a shorter page is the last

// All resources: for each kind the number in the warden's table and the number that the kernel or
// the disk shows, and the names that are in one but not in the other.
// clang-format off
#define ORDER_INVENTORY_FIELDS(X) \
	X(alive) X(frozen) X(dead) X(kept) X(going) /* boxes of the table, by state */ \
	X(prebuilt)    /* and those without an order yet, or whose teardown is not over */ \
	X(groups)    /* cgroups of boxes; the same name in several hierarchies counts once */ \
	X(pids)      /* processes in them */ \
	X(disks)     /* subvolumes, images or directories of boxes */ \
	X(loops)     /* loop devices bound to files of boxes or to the pool */ \
	X(slots)     /* id ranges that boxes use */ \
	X(resting)   /* id ranges that wait until the trash is empty */ \
	X(trash)     /* entries not yet reaped */ \
	X(sockets)   /* in RUN/box */ \
	X(notes)     /* in RUN/cells */ \
	X(odd_count) /* all differences, also those that do not fit in the answer */
// clang-format on
struct order_inventory {
#define X(field) uint32_t field;
	ORDER_INVENTORY_FIELDS(X)
#undef X
};
struct order_odd {
	char what[24]; // "group_without_box", "box_without_group", "box_without_process", ...
	char name[ID_BOX_LEN + 1];
};
#define ORDER_ODDS_MAX 24
// KILL: the kernel does not end the processes. No other error says anything about the box.
#define ORDER_KILL_FAILED "kill_failed"
#define ORDER_ODD_TEMPLATE "layer_without_job"
#define ORDER_UNFINISHED ".new-" // prefix of the name of a template that is being made

// The abilities of this host, sent at HELLO.
struct order_host {
	uint32_t version;
	uint32_t pid1_version;
	uint64_t epoch;	     // differs for each warden process
	bool can_limit_disk; // else a disk limit is refused
	bool can_limit_inodes;
	char disk[16];	 // "btrfs", "ext4-image" or "directory"
	char cgroup[16]; // "v1", "hybrid" or "v2"
	char net[16];	 // how connections are steered: "sk_lookup", "nft" or "none"
	uint32_t boxes_max;
};

// Resources that a box uses. Of a box that does not run, only its disk is known.
#define ORDER_USAGE_UNKNOWN UINT64_MAX
struct order_usage {
	uint64_t memory; // bytes, with the page cache of its files
	uint64_t cpu_us; // since its start
	uint64_t pids;	 // processes and threads
	uint64_t disk;	 // bytes
};

struct answer {
	enum answer_kind kind;
	enum order_kind to; // the order's kind
	uint32_t id;	    // the order's id
	// REFUSED: the error as the tenant may see it. The warden logged the trail.
	enum err_kind error;
	char reason[40], message[256], hint[256];
	uint32_t exec_cgroup;	// CGROUP, BUILD: its number
	uint32_t join_count;	// CGROUP: how many of the fds join it (1 on v2, 2 on v1; again: 0)
	bool net;		// BUILD, NETWORK: listener and UDP socket are the last fds
	bool marked;		// CGROUP again: it has a mark, so it is not for another exec
	struct order_host host; // HELLO
	union {
		struct order_template templates[ORDER_LIST_PAGE]; // LIST
		struct order_box cells[ORDER_BOXES_PAGE]; // BOXES, in the order of their ids
		struct order_odd odds[ORDER_ODDS_MAX];	  // INVENTORY
	};
	uint32_t template_count, cell_count, odd_count;
	uint64_t bytes, files; // IMPORT, FREEZE
	// ADOPT: pid 1 on the host, whether it is frozen, how many exec cgroups there are (from 0
	// on, some may be gone), which of them are spent, see cgroup_is_spent(), and with `cpu` the
	// CPU time of the whole box.
	uint32_t pid;
	bool frozen;
	uint32_t exec_cgroups;
	uint64_t cpu_us;
	uint64_t spent[TALK_CGROUPS_MAX / 64];
	struct order_inventory inventory; // INVENTORY
	struct order_usage usage;	  // USAGE
};

static inline bool cgroup_is_spent(const uint64_t *spent, uint32_t exec_cgroup)
{
	return spent[exec_cgroup / 64] >> exec_cgroup % 64 & 1;
}

// Encodes into `room`; returns the length, 0 if it does not fit (a bug).
size_t order_encode(const struct order *order, void *room, size_t size);
size_t answer_encode(const struct answer *answer, void *room, size_t size);
// INVALID bad_order for anything but exactly one well-formed message with values in range.
fallible order_decode(const void *bytes, size_t len, struct order *out);
fallible answer_decode(const void *bytes, size_t len, struct answer *out);
const char *order_word(enum order_kind kind); // "build"
bool order_is_trace(struct str text);	      // short enough, printable ASCII
int order_brings(const struct order *order);  // fds that are sent with it: 0 or 1
int order_fds(enum order_kind kind);	      // fds of its DONE answer, see answer_fds()
// fds of this answer: those of its kind, join_count more with CGROUP, two with `net`.
#define ORDER_NET_FDS 2 // listener, UDP
int answer_fds(const struct answer *answer);
