// The vocabulary between daemon and warden: what may be ordered, and what may be answered. One
// SOCK_SEQPACKET message each way, encoded here, checked again on arrival. An order names a box by
// id, a template by name, and numbers; never a path, a uid, a flag of the kernel or an argv.
//
// A leaf that was killed is spent: since kernels 6.1.129 and 6.14 whatever is cloned into a cgroup
// that once was killed dies of it. The daemon then asks for another LEAF, which may have the number
// of a spent one, made anew. A leaf with a mark shows that in the name of its directory, for those
// who look from outside; it serves once.
//
// Answers may come out of order: each repeats the id of its order; a BUILD that is `ahead` has
// none. fds travel beside the message, their number fixed by its kind; see answer_fds().
//
// The way out of a box is two sockets in its network namespace: a TCP listener at which every
// connection that the box makes ends, but for those to its own loopback, and a UDP socket at port
// 53 of every address. They come with BUILD and NETWORK, behind the other fds, when the order has
// `net` and the answer says it, too. Each opening replaces the one before; what was accepted lives
// on. Without a daemon that holds the listener, or without the warden that steers to it, a box is
// offline: whoever of the two is new has NETWORK done again. Which namespace is meant the warden is
// told by a socket of the box, whichever: that one fd comes with the order.
//
// Boxes outlive daemon and warden. A daemon that comes asks for the CELLS, and then takes up those
// that it knows by ADOPT; the others it has destroyed. An order whose answer was lost with the
// connection may have been carried out, and may be given again: DESTROY, STOP, PAUSE and THAW are
// done already then, a BUILD is refused with box_exists.
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
	X(HELLO,   "who are you, and what can this host do",        0) \
	X(BUILD,   "make a box",                                    3) /* control, oom, meter; net */ \
	X(DESTROY,    "end a box, answer when it is verified gone",    0) \
	X(CGROUP,   "one more cgroup for an exec of this box",       2) /* of a new one join, on v1 another; meter, oom */ \
	X(KILL,    "kill everything in one leaf",                   0) \
	X(IMPORT,  "unpack an archive as a template",               0) /* first a MORE with the pipe */ \
	X(FREEZE,  "copy the host template once, under a name",     0) \
	X(FORGET,  "remove a template",                             0) \
	X(LIST,    "the templates, a page at a time",               0) \
	X(BOXES,   "what there is of boxes, a page at a time",      0) \
	X(ADOPT,   "what a new daemon needs of a living box",       0) \
	X(STOP,    "end all its processes, keep its disk",          0) \
	X(PAUSE,   "freeze it, answer when nothing in it runs",     0) \
	X(THAW,    "let it run again",                              0) \
	X(INVENTORY,  "what the kernel and the disk hold of boxes",    0) \
	X(NETWORK, "open the way out of a living box, or close it", 0) /* net */ \
	X(USAGE,   "what a box uses now; it is not woken for that", 0)
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
	char trace[ORDER_TRACE_MAX];  // all but HELLO: of the request that caused it, or ""
	char box[ID_BOX_LEN + 1];     // BUILD DESTROY LEAF KILL ADOPT STOP PAUSE THAW
				      // NETWORK USAGE;
				      // CELLS: ids behind this one, "": from the first
	char name[TEMPLATE_NAME_MAX]; // BUILD: template; IMPORT FREEZE FORGET: template;
				      // LIST: names behind this one; LEAF: its mark, or ""
	char host[ID_NAME_MAX + 2];   // BUILD: the box's host name
	struct limits limits;	      // BUILD
	bool ephemeral;		      // BUILD: its disk ends with its processes, so no sync is
				      // owed; it cannot be stopped
	bool net;		      // BUILD: with its way out; NETWORK: open it, else close
	bool cpu;		      // ADOPT: with its CPU time, which costs a millisecond
	bool again;		      // BUILD: on the disk that a STOP, or a reboot, has left;
				      // LEAF: of `leaf`, which pid 1 knows
	bool ahead;		      // BUILD: mount the rootfs where the ground is laid, and say
				      // nothing; a BUILD that is alike follows, or a DESTROY
	uint32_t exec_cgroup;	      // KILL; LEAF again
	uint32_t version;	      // HELLO
	char next[ID_BOX_LEN + 1];    // HELLO, BUILD: what the next new box will be called, so
				      // that its ground can be laid ahead; "": that is not known.
				      // DESTROY: the same, if the box was to be the next
};

enum answer_kind { ANSWER_DONE, ANSWER_MORE, ANSWER_REFUSED, ANSWER_KIND_COUNT };

struct order_template {
	char name[TEMPLATE_NAME_MAX];
	bool is_host;	 // made from this host, not imported
	uint64_t bytes;	 // on disk; 0: not measured
	int64_t created; // wall clock, ms
};
#define ORDER_LIST_PAGE 24

// What there is of a box, as the kernel shows it.
enum order_box_state {
	ORDER_BOX_ALIVE,
	ORDER_BOX_FROZEN, // alive, and PAUSEd: its pid 1 answers after THAW
	ORDER_BOX_DEAD,	  // its pid 1 has ended unasked: to be STOPped or BURYed
	ORDER_BOX_KEPT,	  // nothing but its disk
	ORDER_BOX_GOING,  // is being destroyed or stopped; ask again
	ORDER_BOX_STATE_COUNT
};
struct order_box {
	char box[ID_BOX_LEN + 1];
	enum order_box_state state;
	uint32_t pid; // of its pid 1 on the host; 0: none
};
#define ORDER_BOXES_PAGE 32 // a shorter page is the last

// What there is altogether: for each kind of thing what the warden's table says and what the kernel
// or the disk shows, and by name what stands in one but not in the other.
// clang-format off
#define ORDER_INVENTORY_FIELDS(X) \
	X(alive) X(frozen) X(dead) X(kept) X(going) /* cells of the table, by state */ \
	X(prebuilt)    /* and those that nobody has ordered yet, or whose end is not over */ \
	X(groups)    /* cgroups of boxes; the same name in several hierarchies counts once */ \
	X(pids)      /* processes in them */ \
	X(disks)     /* subvolumes, images or directories of boxes */ \
	X(loops)     /* loop devices bound to files of boxes or to the pool */ \
	X(slots)     /* id ranges that boxes use */ \
	X(resting)   /* id ranges that wait until the trash is empty */ \
	X(trash)     /* entries not yet reaped */ \
	X(sockets)   /* in RUN/box */ \
	X(notes)     /* in RUN/cells */ \
	X(odd_count) /* all differences, also those that found no room in the answer */
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
// KILL: the kernel does not end the processes. No other error says anything of the box.
#define ORDER_KILL_FAILED "kill_failed"
#define ORDER_ODD_TEMPLATE "layer_without_job"
#define ORDER_UNFINISHED ".new-" // how the name of a template begins that is being made

// What this host can do, told at HELLO.
struct order_host {
	uint32_t version;
	uint32_t pid1_version;
	uint64_t epoch;	     // differs for each life of a warden
	bool can_limit_disk; // else a disk limit is refused
	bool can_limit_inodes;
	char disk[16];	 // "btrfs", "ext4-image" or "directory"
	char cgroup[16]; // "v1", "hybrid" or "v2"
	char net[16];	 // how a way out is steered: "sk_lookup", "nft" or "none"
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
	uint32_t exec_cgroup;	// LEAF, BUILD: its number
	uint32_t join_count;	// LEAF: how many of the fds join it (1 on v2, 2 on v1; again: 0)
	bool net;		// BUILD, NETWORK: listener and UDP socket are the last fds
	bool marked;		// LEAF again: it has a mark, so it is not for another exec
	struct order_host host; // HELLO
	union {
		struct order_template templates[ORDER_LIST_PAGE]; // LIST
		struct order_box cells[ORDER_BOXES_PAGE]; // CELLS, in the order of their ids
		struct order_odd odds[ORDER_ODDS_MAX];	  // CENSUS
	};
	uint32_t template_count, cell_count, odd_count;
	uint64_t bytes, files; // IMPORT, FREEZE
	// ADOPT: pid 1 on the host, whether it is frozen, how many leaves there are (from 0 on,
	// some may be gone), which of them are spent, see cgroup_is_spent(), and with `cpu` the
	// CPU time that the whole box has used.
	uint32_t pid;
	bool frozen;
	uint32_t exec_cgroups;
	uint64_t cpu_us;
	uint64_t spent[TALK_CGROUPS_MAX / 64];
	struct order_inventory inventory; // CENSUS
	struct order_usage usage;	  // USAGE
};

static inline bool cgroup_is_spent(const uint64_t *spent, uint32_t exec_cgroup)
{
	return spent[exec_cgroup / 64] >> exec_cgroup % 64 & 1;
}

// Encodes into `room`; returns the length, 0 when it does not fit (our own mistake).
size_t order_encode(const struct order *order, void *room, size_t size);
size_t answer_encode(const struct answer *answer, void *room, size_t size);
// INVALID bad_order for anything that is not exactly one well-formed message with values in range.
fallible order_decode(const void *bytes, size_t len, struct order *out);
fallible answer_decode(const void *bytes, size_t len, struct answer *out);
const char *order_word(enum order_kind kind); // "build"
bool order_is_trace(struct str text);	      // short enough, printable ASCII
int order_brings(const struct order *order);  // fds that come beside it: 0 or 1
int order_fds(enum order_kind kind);	      // fds of its DONE answer, see answer_fds()
// fds that come beside this answer: those of its kind, join_count more with LEAF, two with `net`.
#define ORDER_NET_FDS 2 // listener, UDP
int answer_fds(const struct answer *answer);
