// Between two daemons: pid 1 waits for the next one and tells it what it holds.
#pragma once

#include "init/conv.h"

// It has somewhere to wait: TALK_FD_LISTEN listens.
bool held_may_return(void);
// Takes whoever knocks as the daemon: the old connection ends. False: it was nobody.
bool held_meet(void);
// What a conversation is for, in a daemon's words.
void held_set_tag(struct conv *conv, int place, struct str tag);
// What STARTED brought stays here as well, for the next daemon: else the end of stdin is closed.
bool held_keeps_in(const struct conv *conv);
// A new daemon has asked: what became of this one in the meantime is to be told anew, or, if no
// daemon wants to know it, nothing any more.
void held_owe(struct conv *conv);
// Both as conv_say().
bool held_say(const struct conv *conv);
bool held_say_end(void);
bool held_say_sync(int listener);
