/* A TCP relay: relay PORT FAST SLOW. It copies bytes and reads nothing but the path of the first request,
 * which says to which of the two upstreams a connection leads: the fast one answers whole and stream. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MOST = 65536, EVENTS = 256 };
static int peer[MOST]; /* by descriptor: the other side, 0 before it is connected */
static char buffer[1 << 18];

static struct sockaddr_in local(const char *port) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(atoi(port))};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return at;
}

static void watch(int poll, int fd) {
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event);
}

static int connected(const char *port) {
    struct sockaddr_in at = local(port);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&at, sizeof at) < 0) { perror("connect"); exit(1); }
    return fd;
}

static void end(int fd) {
    if (peer[fd]) { close(peer[fd]); peer[peer[fd]] = 0; }
    peer[fd] = 0;
    close(fd);
}

int main(int count, char **arguments) {
    if (count != 4) return 2;
    struct sockaddr_in at = local(arguments[1]);
    int listening = socket(AF_INET, SOCK_STREAM, 0), poll = epoll_create1(0);
    setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
    if (bind(listening, (struct sockaddr *)&at, sizeof at) < 0 || listen(listening, 4096) < 0) return 1;
    watch(poll, listening);
    for (;;) {
        struct epoll_event events[EVENTS];
        int ready = epoll_wait(poll, events, EVENTS, -1);
        for (int each = 0; each < ready; each++) {
            int fd = events[each].data.fd;
            if (fd == listening) { watch(poll, accept(listening, NULL, NULL)); continue; }
            ssize_t got = recv(fd, buffer, sizeof buffer, MSG_DONTWAIT);
            if (got < 0 && errno == EAGAIN) continue; /* an event of a descriptor that is used again */
            if (got <= 0) { end(fd); continue; }
            if (!peer[fd]) {
                int fast = memmem(buffer, got, "/whole/", 7) || memmem(buffer, got, "/stream/", 8);
                peer[fd] = connected(arguments[fast ? 2 : 3]);
                peer[peer[fd]] = fd;
                watch(poll, peer[fd]);
            }
            for (ssize_t sent = 0; sent < got;) {
                ssize_t more = send(peer[fd], buffer + sent, got - sent, MSG_NOSIGNAL);
                if (more < 0) { end(fd); break; }
                sent += more;
            }
        }
    }
}
