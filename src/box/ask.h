// Orders to the warden, answers and fds back. Many orders may be under way at once; each waits in
// its own task. When the warden is away every order is UNAVAILABLE no_warden, and the link is
// sought again in the background.
#pragma once

#include "loop/task.h"
#include "protocol/order.h"

struct ask;

// `path`: the warden's socket in the run directory. Returns at once; ask_host() tells when linked.
struct ask *ask_open(struct loop *loop, const char *path);
void ask_close(struct ask *ask);
// An id for a new box: the one that the warden was told to expect.
void ask_name_box(struct ask *ask, char out[ID_BOX_LEN + 1]);
// What the warden said of the host; NULL while there is no link.
const struct order_host *ask_host(const struct ask *ask);
// … or the last one did; NULL: there was none.
const struct order_host *ask_last_host(const struct ask *ask);
// Whether the warden is there, and the one of that link: an order to another knows nothing of it.
uint32_t ask_links(const struct ask *ask);
bool ask_is_same(const struct ask *ask, uint32_t links);
fallible ask_wait_linked(struct ask *ask, int64_t deadline);
// Called each time the link is lost. Boxes and their pid 1s live on; but no order can be given
// until the link is back, and whether those under way were carried out nobody knows.
void ask_on_loss(struct ask *ask, void (*lost)(void *arg), void *arg);

// Sends `order` (its id is set here) and waits for the final answer. A refusal becomes the error it
// describes. `fds` has room for ORDER_FDS_MAX and receives answer_fds() of them, the caller's.
// EXHAUSTED ASK_NO_FILES: it was carried out, *out says with what result, but this process had no
// numbers left for the fds: whatever was made is the caller's to undo.
#define ASK_NO_FILES "daemon_files"
fallible ask_no_files(void); // that error
fallible ask_order(struct ask *ask, struct order *order, struct answer *out, int *fds,
		   int64_t deadline);
// The same for an order that brings an fd (order_brings()), which stays the caller's.
fallible ask_order_with(struct ask *ask, struct order *order, int fd, struct answer *out, int *fds,
			int64_t deadline);
// The warden was told to expect that box next, and nothing else since.
bool ask_is_expected(const struct ask *ask, const char *box);
// Sends an order that has no answer, if that can be done at once. Never waits. False: it was not
// sent.
bool ask_tell(struct ask *ask, struct order *order);
// For those who must not take silence for an answer: a TIMEOUT becomes UNAVAILABLE no_warden.
fallible ask_unanswered(struct err *err);

// All cells, in the order of their ids; `each` must not wait. Asks as many pages as it takes.
fallible ask_boxes(struct ask *ask, void (*each)(void *arg, const struct order_box *cell),
		   void *arg, int64_t deadline);

// IMPORT in two steps: begin gives the pipe to write the archive to; close it, then end waits.
struct ask_import;
fallible ask_import_begin(struct ask *ask, const char *name, struct ask_import **out,
			  int *out_pipe);
fallible ask_import_end(struct ask_import *import, struct answer *out,
			int64_t deadline); // frees it
