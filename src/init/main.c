#include "init/init.h"

int main(void)
{
	return init_main();
}
