// The entry point of cove-init, the static program that becomes pid 1 of every box. It takes no
// arguments: everything comes by fixed fds (protocol/talk.h).
#include "init/init.h"

int main(void)
{
	return init_main();
}
