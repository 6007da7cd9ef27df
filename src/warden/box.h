// A box as the warden sees it, and the warden's own state: what the verbs of build, bury and the
// orders share.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/id.h"
#include "base/map.h"
#include "protocol/order.h"
#include "protocol/talk.h"
#include "warden/box_state.h"
#include "warden/deferred_unmount.h"
#include "warden/disk.h"
#include "warden/group.h"
#include "warden/ids.h"
#include "warden/netout.h"
#include "warden/template.h"
#include "warden/zygote.h"

#define WARDEN_BOX_WAITERS 4
#define WARDEN_BUILDS_MAX 64  // clones that the zygote may be behind; then orders wait
#define WARDEN_MOUNTS_MAX 512 // cgroup mounts of boxes that are kept open
#define WARDEN_LONG_MAX 16    // imports and the like under way for one daemon

enum warden_box_state {
	WARDEN_BOX_BUILDING, // the zygote was told, and has not answered
	WARDEN_BOX_PREBUILT, // its ground is laid, and no order has come for it yet
			     // (warden/prebuilt)
	WARDEN_BOX_ALIVE,
	WARDEN_BOX_DYING,    // killed, its end not seen
	WARDEN_BOX_SWEEPING, // dead, its groups and files not yet gone
	WARDEN_BOX_KEPT	     // nothing but a disk
};

// Who is to be told of the end of a box: the order's number and kind.
struct warden_box_waiter {
	uint32_t order;
	enum order_kind kind; // BURY or STOP
};

struct warden_box {
	char id[ID_BOX_LEN + 1];
	char trace[ORDER_TRACE_MAX]; // of the last order that meant it
	enum warden_box_state state;
	bool ahead;	// nobody has ordered it yet
	bool is_set_up; // but its goods were brought, and its order is on its way
	bool doomed;	// to be buried as soon as the zygote has answered
	bool keeps;	// its disk stays when the rest is swept
	bool is_child;	// this life of the warden has cloned it, and reaps it
	int pid, pidfd; // -1: it has ended
	uint64_t watch; // what the loop knows its pidfd by, see teardown_watch()
	uint32_t exec_cgroups;
	struct box_state
		note; // what the next life is told; its id range, and leaves to be made anew
	bool has_state, has_listener, has_slot, has_groups, has_disk;
	uint32_t build_order;	// whom the birth is owed to
	bool build_owed;	// that daemon is still there
	uint64_t number;	// of its build
	bool awaits;		// its pid 1's word of the overlays
	int group_mount;	// see group_exec(); -1: none is kept
	int mounts;		// a copy of its overlays, so that we say when they end; -1: none
	bool net;		// its build was to open its way out
	int userns;		// of its id range, the slot's; BUILDING, BERTH
	int netns;		// of a berth whose way out is open; -1: none
	int steer;		// what steers there, see warden/netout.h; -1: nothing of ours
	int fds[ORDER_FDS_MAX]; // what the daemon gets with it: control, oom, meter, way out
	struct limits limits;	// that its groups keep
	struct err *late;	// why it is to be refused when the zygote has answered
	struct answer *refusal; // instead, once all is undone
	struct warden_box_waiter waiters[WARDEN_BOX_WAITERS];
	int waiter_count;
	int64_t next_us; // when to sweep again
	int64_t dying_us;
	int sweeps;
	bool told_stuck;
	struct link link; // in warden.building or warden.graves
};

// A leaf that does not empty at the first stroke (v1).
struct kill_retry {
	struct link link;
	char box[ID_BOX_LEN + 1];
	char trace[ORDER_TRACE_MAX];
	uint32_t exec_cgroup, order;
	int64_t next_us, deadline_us;
};

// A box that is to stand still, and does not yet.
struct pause {
	struct link link;
	char box[ID_BOX_LEN + 1];
	char trace[ORDER_TRACE_MAX];
	uint32_t order;
	int64_t next_us, deadline_us;
};

// An order whose answer comes from a child, which is killed when it takes too long.
struct long_order {
	uint32_t id;
	int64_t deadline_us;
};

// A build that waits until the disk of its box is repaired.
struct repair {
	struct link link;
	struct order order;
	bool owed; // the daemon that asked is still there
	int pid;   // of e2fsck
};

struct blocked_calls;

struct warden {
	int data, epoll, listener, daemon, signals;
	int cells, ears;	   // RUN/cells, RUN/box
	char boot[BOX_STATE_BOOT]; // this boot's name
	uint32_t daemon_events;	   // what the loop asks of the daemon's socket
	uid_t uid;		   // the daemon's
	uint64_t epoch;
	uint32_t boxes_max;
	uint64_t files_max; // fs.file-max of the host
	bool greeted;	    // this daemon said HELLO
	bool stopping, failed, leftovers;
	bool ending; // at the end no box shall run
	struct groups *groups;
	uint32_t group_mounts; // cells that have one
	struct zygote *zygote;
	struct deferred_unmount *unmount;
	struct netout netout;
	uint64_t builds;	     // so far, to number them
	char next[ID_BOX_LEN + 1];   // what the daemon means to call the next box
	int64_t asked_us;	     // when the last one was ordered
	struct warden_box *prebuilt; // laid ahead, for that one or an earlier; NULL: none
	struct order is_set_up;	     // whose goods the berth has
	struct limits usual;	     // of the last box
	struct disk *disk;
	struct templates *templates;
	struct ids *ids;
	int jail_userns;	     // of the slot that archives are unpacked in
	struct group_door jail_door; // and the cgroup
	struct map *boxes;
	struct map *watched; // cells by their number
	uint64_t last_watch;
	struct link building; // cells, in the order of their clones
	size_t building_count;
	struct link teardowns; // cells that are being swept
	size_t kept;	       // cells that are nothing but a disk
	struct link kill_retries;
	struct link pauses;
	struct link repairs;
	struct link letters; // answers that wait for the socket
	size_t reply_count;
	int64_t post_us; // when to try them again, if the kernel had no memory; else 0
	struct long_order long_orders[WARDEN_LONG_MAX];
	int long_count;
	struct order order;		   // the one at hand
	int brought;			   // the fd that came with it, borrowed; -1: none
	struct answer answer;		   // to it
	char room[ORDER_SIZE_MAX];	   // for messages, either way
	const struct blocked_calls *holds; // of the daemon (warden/blocked); NULL: not told
};

// What an epoll event means: one of these, or else TAG_COUNT and up the box whose pid 1 has ended.
enum warden_tag { TAG_LISTENER, TAG_DAEMON, TAG_SIGNALS, TAG_ZYGOTE, TAG_COUNT };
