// What a hand does all its life: one request after another (protocol/fileop.h), until its socket
// closes. It is a process of its own: it may use the heap, and end when it likes.
#pragma once

#include "protocol/fileop.h"

// What each verb is. It returns true with `say` as the last answer, or false with errno, or with
// say->why and say->text. Those that have more to tell say it before (init/reply.h).
typedef bool serve_verb(const struct fileop_request *ask, struct fileop_reply *reply);

void serve_run(int sock);
