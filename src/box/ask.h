// Orders to the warden, and its answers with fds. Many orders may be under way; each waits in its
// own task. Without a connection every order fails as UNAVAILABLE no_warden, and the connection is
// retried in the background.
#pragma once

#include "loop/task.h"
#include "protocol/order.h"

struct ask;

// `path`: the warden's socket in the run directory. Returns at once; ask_host() is not NULL when
// connected.
struct ask *ask_open(struct loop *loop, const char *path);
void ask_close(struct ask *ask);
// Takes the id for a new box: the one that the warden expects.
void ask_name_box(struct ask *ask, char out[ID_BOX_LEN + 1]);
// Properties of the host, from the warden; NULL while there is no connection.
const struct order_host *ask_host(const struct ask *ask);
// The same of the last connection; NULL: there was none.
const struct order_host *ask_last_host(const struct ask *ask);
// The number of the connection, and whether that one still stands: another warden knows nothing of
// earlier orders.
uint32_t ask_links(const struct ask *ask);
bool ask_is_same(const struct ask *ask, uint32_t links);
fallible ask_wait_linked(struct ask *ask, int64_t deadline);
// Called each time the connection is lost. Boxes and their pid 1 live on. Orders fail until it is
// back; whether those under way were carried out is unknown.
void ask_on_loss(struct ask *ask, void (*lost)(void *arg), void *arg);

// Sends `order` (its id is set here) and waits for the final answer. A refusal becomes the error it
// describes. `fds` has room for ORDER_FDS_MAX and receives answer_fds() of them, owned by the
// caller. EXHAUSTED ASK_NO_FILES: the order was carried out with the result *out, but this process
// had no fd numbers left: the caller undoes what was made.
#define ASK_NO_FILES "daemon_files"
fallible ask_no_files(void); // that error
fallible ask_order(struct ask *ask, struct order *order, struct answer *out, int *fds,
		   int64_t deadline);
// The same for an order that carries an fd (order_brings()), which stays the caller's.
fallible ask_order_with(struct ask *ask, struct order *order, int fd, struct answer *out, int *fds,
			int64_t deadline);
// The same for an order about one box whose answer carries nothing.
fallible ask_plain(struct ask *ask, struct order *order, const char *box, int64_t deadline);
// STOP or DESTROY. *out_cpu_us: what the cgroup of the box had used at its end; 0: there was none.
fallible ask_end(struct ask *ask, enum order_kind kind, const char *box, int64_t deadline,
		 uint64_t *out_cpu_us);
// The warden expects that box next.
bool ask_is_expected(const struct ask *ask, const char *box);
// Sends an order that has no answer. Never waits. False: not sent.
bool ask_send(struct ask *ask, struct order *order);
// Turns a TIMEOUT into UNAVAILABLE no_warden, for callers to which silence is not an answer.
fallible ask_unanswered(struct err *err);

// Lists all boxes in the order of their ids; `each` must not wait. Asks for as many pages as there
// are.
fallible ask_boxes(struct ask *ask, void (*each)(void *arg, const struct order_box *cell),
		   void *arg, int64_t deadline);

// Lists all volumes likewise.
fallible ask_volumes(struct ask *ask, void (*each)(void *arg, const struct order_volume *volume),
		     void *arg, int64_t deadline);

// IMPORT in two steps: begin returns the pipe for the archive; close it, then end waits for the
// answer.
struct ask_import;
fallible ask_import_begin(struct ask *ask, const char *name, struct ask_import **out,
			  int *out_pipe);
fallible ask_import_end(struct ask_import *import, struct answer *out,
			int64_t deadline); // frees it
