// A box as the warden sees it, with the table of its states (box.c), and the state of the warden
// itself, shared by build, teardown and orders.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/id.h"
#include "base/map.h"
#include "protocol/order.h"
#include "protocol/talk.h"
#include "warden/box_state.h"
#include "warden/disk.h"
#include "warden/group.h"
#include "warden/ids.h"
#include "warden/zygote.h"

#define WARDEN_BOX_WAITERS 4
#define WARDEN_BUILDS_MAX 64  // clones that the zygote may be behind; then orders wait
#define WARDEN_MOUNTS_MAX 512 // cgroup mounts of boxes that are kept open
#define WARDEN_LONG_MAX 16    // imports and template copies under way for one daemon

enum warden_box_state {
	WARDEN_BOX_PREBUILDING, // the zygote has the request; no order has asked for the box
	WARDEN_BOX_PREBUILT,	// its base is built, and no order has asked for it
	WARDEN_BOX_SET_UP,	// the same, with rootfs mounts: its order is on its way
	WARDEN_BOX_BUILDING,	// the zygote has the request, for an order
	WARDEN_BOX_DOOMED,	// the zygote has the request; removed as soon as it has answered
	WARDEN_BOX_ALIVE,
	WARDEN_BOX_DYING,    // killed, exit not seen yet
	WARDEN_BOX_SWEEPING, // dead, cgroups and files not yet removed
	WARDEN_BOX_KEPT	     // nothing but a disk, or its archive
};

// Events that change the state of a box. An event that the table has no row for changes nothing.
enum warden_box_event {
	BOX_EVENT_SET_UP,  // its rootfs mounts were sent ahead of its order
	BOX_EVENT_ORDERED, // a BUILD order asks for it
	BOX_EVENT_CLONED,  // the zygote has answered
	BOX_EVENT_FAILED,  // its build failed
	BOX_EVENT_REMOVE,  // it shall end: destroyed, or stopped
	BOX_EVENT_EXITED,  // its pid 1 has exited
	BOX_EVENT_EMPTIED, // nothing but its disk is left
};

// An order to be answered when the box has ended.
struct warden_box_waiter {
	uint32_t order;
	enum order_kind kind; // DESTROY or STOP
};

struct warden_box {
	char id[ID_BOX_LEN + 1];
	char trace[ORDER_TRACE_MAX]; // of the last order for this box
	enum warden_box_state state; // changed by warden_box_move() alone
	bool keeps;		     // its disk stays when the rest is removed
	int pid, pidfd;		     // -1: exited
	uint64_t watch;		     // epoll key of its pidfd, see teardown_watch()
	uint32_t exec_cgroups;
	struct box_state state_file; // for the next warden: id range, killed exec cgroups
	struct {
		bool state, listener, slot, groups, disk, archive;
	} has;		      // what was made for it, and is to be removed
	uint32_t build_order; // the order that the build answers; 0: none, or its daemon is gone
	uint64_t number;      // of its build
	bool awaits;	      // pid 1's message with its overlay mounts
	int group_mount;      // see group_exec(); -1: none is kept
	int mounts; // a copy of its overlays, so that the warden decides when they are unmounted;
		    // -1: none
	bool net;   // its build was to open its network
	int userns; // of its id range, owned by the slot; until it is ALIVE
	int netns;  // of a prebuilt box with an open network; -1: none
	int steer;  // holds the steering program, see warden/box_network.h; -1: none
	int fds[ORDER_FDS_MAX]; // for the daemon: control, oom, meter, network
	struct limits limits;	// that its cgroups enforce
	struct err *build_err;	// refuse with this when the zygote has answered
	struct answer *refusal; // sent when everything is undone
	struct warden_box_waiter waiters[WARDEN_BOX_WAITERS];
	int waiter_count;
	int64_t next_us; // when to try the removal again
	int64_t dying_us;
	int sweeps;
	uint64_t used_cpu_us; // by its cgroup, when all processes had ended
	bool told_stuck;
	struct link link; // in warden.building or warden.teardowns
};

// A KILL or PAUSE that the kernel has not finished: retried by the clock, up to a deadline.
struct retry {
	struct link link;
	enum order_kind kind;
	char box[ID_BOX_LEN + 1];
	char trace[ORDER_TRACE_MAX];
	uint32_t exec_cgroup, order;
	int64_t next_us, deadline_us;
};

// An order that a child answers. The child is killed when it takes too long.
struct long_order {
	uint32_t id;
	int64_t deadline_us;
};

// A build that waits until the disk of its box is repaired, or loaded from a snapshot.
struct repair {
	struct link link;
	struct order order; // its id is 0 if the daemon that asked is gone
	int pid;	    // of e2fsck, or of the child that loads a snapshot
	int report;	    // of the latter; -1: none
};

// How connections are steered to the listener.
enum box_network_by { NETWORK_BY_NONE, NETWORK_BY_SK_LOOKUP, NETWORK_BY_NFT };

// See warden/box_network.h.
struct box_network {
	enum box_network_by by;
	int home; // the host's own network namespace
	dev_t dev;
	ino_t inode;
};

struct blocked_calls;
struct deferred_unmount;
struct templates;
struct snapshots;
struct volumes;
struct archives;

struct warden {
	int data, epoll, listener, daemon, signals;
	int state_dir, listeners;  // RUN/cells, RUN/box
	char boot[BOX_STATE_BOOT]; // boot id
	uint32_t daemon_events;	   // epoll events that are asked of the daemon's socket
	uid_t uid;		   // the daemon's
	uint64_t epoch;
	uint32_t boxes_max;
	uint64_t files_max; // fs.file-max of the host
	bool greeted;	    // this daemon said HELLO
	bool stopping, failed, leftovers;
	bool ending; // no box shall run when the warden exits
	struct groups *groups;
	uint32_t group_mounts; // boxes that have one
	struct zygote *zygote;
	struct deferred_unmount *unmount;
	struct box_network network;
	uint64_t builds;	     // number of the last build
	char next[ID_BOX_LEN + 1];   // id that the daemon will give to the next box
	int64_t asked_us;	     // when the last box was ordered
	struct warden_box *prebuilt; // built ahead for that id or an earlier one, and asked for by
				     // no order, also while it is removed; NULL: none
	struct order set_up; // the order whose rootfs mounts the prebuilt box has
	struct limits usual; // limits of the last box
	struct disk *disk;
	struct templates *templates;
	struct snapshots *snapshots;
	struct volumes *volumes;
	struct archives *archives;
	struct ids *ids;
	int jail_userns;	     // of the slot in which archives are unpacked
	struct group_door jail_door; // its cgroup
	struct map *boxes;
	struct map *watched; // boxes by `watch`
	uint64_t last_watch;
	struct link building; // boxes, in the order of their clones
	size_t building_count;
	struct link teardowns; // boxes that are being removed
	size_t kept;	       // boxes that are nothing but a disk
	struct link retries;   // KILL and PAUSE orders
	struct link repairs;
	struct link limit_jobs; // LIMIT orders that a child works on
	struct link replies;	// answers that wait for the socket
	size_t reply_count;
	int64_t reply_retry_us; // when to try them again after ENOBUFS; else 0
	struct long_order long_orders[WARDEN_LONG_MAX];
	int long_count;
	struct order order;	   // the current order
	int brought;		   // its descriptor, borrowed; -1: none
	struct answer answer;	   // to the current order
	char room[ORDER_SIZE_MAX]; // buffer for messages, either way
	const struct blocked_calls
		*blocked_calls; // of the daemon (warden/blocked); NULL: none mapped
};

// epoll data: one of these, or from TAG_COUNT up the `watch` number of a box whose pid 1 has
// exited.
enum warden_tag { TAG_LISTENER, TAG_DAEMON, TAG_SIGNALS, TAG_ZYGOTE, TAG_COUNT };

// A box in the table, with nothing made for it.
struct warden_box *warden_box_new(struct warden *warden, const char *box_id,
				  enum warden_box_state state);
// False: the table has no such transition, and the box stays as it is.
bool warden_box_move(struct warden *warden, struct warden_box *box, enum warden_box_event event);
// The next box of the table; NULL: no more. Start with *at = 0; the table must not change
// meanwhile.
struct warden_box *warden_box_next(const struct warden *warden, size_t *at);
// The zygote has the request for its clone, and has not answered.
bool warden_box_is_building(const struct warden_box *box);
// Closes every descriptor that is held for the box. Frees its errors.
void warden_box_close(struct warden *warden, struct warden_box *box);
