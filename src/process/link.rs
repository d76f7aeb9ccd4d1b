//! The supervisor's end of the socket to the keeper.

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendFlags, recvmsg, sendmsg,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::watched::watched;
use wire::keeper::{Order, PACKET_MAX, Report};

/// Sends orders and receives reports.
pub struct Link {
    socket: AsyncFd<OwnedFd>,
    packets: VecDeque<Vec<u8>>,
    later: Vec<Order>,
}

/// A descriptor number above all others of a supervisor with a usual number of slots.
const HIGH: i32 = 4000;

/// Wait between two tries to send when the keeper had no room.
const MOMENT: Duration = Duration::from_millis(2);

/// Limit of the orders without urgency that wait for urgent ones.
const LATER: usize = 64;

/// A report with the descriptors that came along.
pub type KeeperMessage = (Report, Vec<OwnedFd>);

/// Moves the socket to a number above all others. A dying process closes its highest descriptors first, and some
/// (inotify) take the kernel 20 ms: the keeper should notice the death before that. If few descriptors are allowed, the
/// socket stays where it is. Must be called while the process has one thread: with more, the kernel takes 10 ms to make
/// room for the number.
pub fn on_top(socket: OwnedFd) -> OwnedFd {
    rustix::io::fcntl_dupfd_cloexec(&socket, HIGH).unwrap_or(socket)
}

impl Link {
    /// Takes over the socket that the keeper has passed to the supervisor.
    pub fn new(socket: OwnedFd) -> io::Result<Link> {
        rustix::io::ioctl_fionbio(&socket, true)?;
        Ok(Link { socket: watched(socket, Interest::READABLE)?, packets: VecDeque::new(), later: Vec::new() })
    }

    /// Adds an order to be sent by the next [`Link::flush`]; orders of one turn go in one packet.
    pub fn order(&mut self, order: &Order) {
        let fits = |packet: &Vec<u8>| packet.len() + frame_room(order) <= PACKET_MAX;
        if !self.packets.back().is_some_and(fits) {
            self.packets.push_back(Vec::with_capacity(64));
        }
        if let Some(packet) = self.packets.back_mut() {
            order.encode(packet);
        }
    }

    /// Adds an order without urgency: it goes with the next urgent one, and does not wake the keeper by itself.
    pub fn order_later(&mut self, order: Order) {
        self.later.push(order);
    }

    /// Sends the orders, as far as the keeper takes them. [`Link::recv`] sends the rest when it can, and reports when
    /// the keeper is gone.
    pub fn flush(&mut self) -> io::Result<()> {
        if !self.packets.is_empty() || self.later.len() > LATER {
            for order in std::mem::take(&mut self.later) {
                self.order(&order);
            }
        }
        while let Some(packet) = self.packets.front() {
            let sent = sendmsg(
                self.socket.get_ref(),
                &[IoSlice::new(packet)],
                &mut SendAncillaryBuffer::default(),
                SendFlags::NOSIGNAL,
            );
            match sent {
                Ok(_) => drop(self.packets.pop_front()),
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::PIPE | rustix::io::Errno::CONNRESET) => {
                    return Ok(());
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Whether the keeper has taken all urgent orders.
    pub fn is_flushed(&self) -> bool {
        self.packets.is_empty()
    }

    /// The next report; None when the keeper is gone. Cancel-safe.
    pub async fn recv(&mut self) -> io::Result<Option<KeeperMessage>> {
        loop {
            if !self.packets.is_empty() {
                // Rare: orders come faster than the keeper reads. A duplicate of the socket waits for room.
                let room =
                    self.socket.get_ref().try_clone().and_then(|copy| watched(copy, Interest::WRITABLE));
                let has_room = tokio::select! {
                    guard = self.socket.readable() => guard.map(|_| false)?,
                    guard = writable(room.as_ref().ok()) => guard.map(|_| true)?,
                };
                if has_room {
                    self.flush()?;
                    continue;
                }
            }
            let mut guard = self.socket.readable().await?;
            match guard.try_io(|socket| receive(socket.get_ref())) {
                Ok(message) => return message,
                Err(_would_block) => {}
            }
        }
    }
}

/// Waits for room; if there is no descriptor left to wait with, for a moment.
async fn writable(room: Option<&AsyncFd<OwnedFd>>) -> io::Result<()> {
    match room {
        Some(room) => room.writable().await.map(drop),
        None => {
            tokio::time::sleep(MOMENT).await;
            Ok(())
        }
    }
}

fn frame_room(order: &Order) -> usize {
    match order {
        Order::Notify(text) => text.len() + 3,
        Order::Bound(..) => 25,
        Order::Follow(..) => 19,
        Order::Spawn(_)
        | Order::Place(_)
        | Order::Hurry
        | Order::Template(_)
        | Order::Fork(..)
        | Order::KillAt(..)
        | Order::Terminate(_)
        | Order::KillTree(_)
        | Order::Forget(_)
        | Order::StopDeadline(_)
        | Order::Shutdown(_) => 17,
    }
}

fn receive(socket: &OwnedFd) -> io::Result<Option<KeeperMessage>> {
    let mut packet = [0u8; PACKET_MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got =
        match recvmsg(socket, &mut [IoSliceMut::new(&mut packet)], &mut control, RecvFlags::CMSG_CLOEXEC) {
            Ok(got) => got.bytes,
            Err(rustix::io::Errno::CONNRESET) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
    if got == 0 {
        return Ok(None);
    }
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            descriptors.extend(fds);
        }
    }
    let report = Report::decode(&packet[..got]).map_err(io::Error::other)?;
    Ok(Some((report, descriptors)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    #[tokio::test]
    async fn keeper_that_dies_during_an_order_is_no_error() {
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        let mut link = Link::new(ours).unwrap();
        drop(theirs);
        link.order(&Order::Shutdown(0));
        link.flush().unwrap();
        assert!(!link.is_flushed());
        assert!(link.recv().await.unwrap().is_none());
    }
}
