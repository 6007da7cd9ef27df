// The requests to a file worker: each is called by the table of file_worker.c alone.
#pragma once

#include "protocol/fileop.h"

// True: `reply` is the last answer. False: errno, or reply->why and reply->text. A handler with
// more to report sends it before (init/reply.h).
typedef bool fileop_handler(const struct fileop_request *ask, struct fileop_reply *reply);

fileop_handler file_stat, file_read, file_readlink, file_space;
fileop_handler file_write, file_begin, file_commit, file_abort;
fileop_handler tree_list, tree_find, tree_mkdir, tree_remove, tree_chmod, move_serve;
fileop_handler grep_serve, tarin_serve, tarout_serve, watch_serve;
// ports_socket: a socket by which the warden identifies the network namespace of this box.
fileop_handler ports_dial, ports_socket, ports_list, sweep_serve;
fileop_handler processes_list, processes_signal;

// Removes the temporary file of a write or upload under way. Called from a signal handler too.
void file_undo(void);
