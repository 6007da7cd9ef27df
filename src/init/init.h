// pid 1 of a box.
#pragma once

// Never returns 0: it ends with its control socket, or tells why the box is broken.
int init_main(void);
