// The state of pid 1, one per process, and its table of commands: find one, tell the daemon what it
// is owed of one, free its place when it is over.
#include "init/state.h"

#include <time.h>

#include "init/held.h"
#include "os/fd.h"

struct init init;

int64_t init_now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

// Frees the place when the conversation is over. Its ends are closed when nobody waits.
void init_settle(struct conv *conv)
{
	if (init.ear != EAR_KNOWS && conv->owes)
		return;
	if (conv->owes && conv_say(conv)) {
		if ((conv->owes & OWES_STARTED) && !(init.returns && held_keeps_in(conv)))
			fd_drop(&conv->run.in);
		conv->owes = 0;
	}
	if (conv->owes) {
		init.owing = true;
	} else if (conv->pid == 0 && !conv->starting && conv->forgotten) {
		conv->used = false;
		init.untidy = true;
	}
}

struct conv *init_find(uint32_t id)
{
	for (int i = 0; i < init.conv_end; i++)
		if (init.convs[i].used && init.convs[i].id == id)
			return &init.convs[i];
	return NULL;
}
