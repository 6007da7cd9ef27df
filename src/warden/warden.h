// The privileged process: `cove warden`, started by the supervisor only.
#pragma once

// argv behind the verb, in any order, each as "--name=value":
//	--data=DIR --run=DIR   both exist
//	--uid=N --gid=N        the daemon's user: the only peer that may connect to RUN/warden.sock
//	--disk=WORD            the disk driver; absent: the best that works
//	--fd-lock=N            an inherited fd that is kept open as long as this process lives
//	--fd-holds=N           another: protocol/blocked_call.h; SIGUSR1: the daemon cannot exit
// Returns the exit status; errors are in the log. EX_TEMPFAIL: a helper process was killed, and
// another start may succeed. SIGTERM: leaves the boxes as they are and exits with 0. SIGINT: ends
// all boxes first, keeps the disks of those that can be stopped.
int warden_main(int argc, char **argv);
